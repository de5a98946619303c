"""QG508 unknown-top-module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

# Heads and draft models that text classes have or pass over.
_USUAL = frozenset({"lm_head", "score", "classifier", "mtp", "draft", "eagle", "medusa", "rotary"})


@rule("QG508", "unknown-top-module", of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """Tensors stand beside the model under a name that its text-only class does not have.

    ## What it checks

    For text-only classes (`…ForCausalLM`) that vLLM knows: that the first component of every name,
    once renamed by the class, is that of the decoder, an output head or a draft model.

    ## Why it matters

    vLLM looks for a module of that name and stops: `There is no module or parameter named
    'v_head' in LlamaForCausalLM`, or `KeyError` in model classes with a loop of their own. A
    leftover value head or adapter is enough.

    ## Example

    ```
    LlamaForCausalLM
    model.layers.0.self_attn.q_proj.weight
    v_head.summary.weight
    ```

    ## Fix

    Remove these tensors from the weight files and the index.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Multimodal classes, whose towers have many names. Biases, which vLLM drops without a word.
    """
    decoder, naming = model.decoder, model.naming
    known_class = naming.architecture.endswith("ForCausalLM") and not naming.wraps
    if decoder is None or naming.open_mappings or not known_class:
        return
    root = naming.module(f"{decoder.root}.0")
    if root is None or "." not in root.removesuffix(".0"):
        return
    allowed = {root.partition(".")[0], *_USUAL, *naming.tops}
    for module, leaves in model.modules.items():
        mapped = naming.module(module)
        if mapped is None or leaves.keys() <= {"bias"}:
            continue
        top = mapped.partition(".")[0]
        if top and top not in allowed:
            yield Fault(
                message=f"vLLM's {naming.architecture} has no module of this name: it stops while "
                "loading (There is no module or parameter named …).",
                module=module,
                expected=f"{root.partition('.')[0]} or lm_head",
                found=top,
                fix="Remove these tensors from the weight files and the index.",
                confidence=Confidence.LIKELY,
            )
