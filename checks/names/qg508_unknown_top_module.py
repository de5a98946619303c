"""QG508 unknown-top-module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Leaves, Model

# Heads and draft models that text classes have or pass over.
_USUAL = frozenset({"lm_head", "score", "classifier", "mtp", "draft", "eagle", "medusa", "rotary"})


@rule("QG508", "unknown-top-module", of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """Tensors stand beside the model under a name that its text-only class does not have.

    ## What it checks

    For text-only classes (`…ForCausalLM`) that vLLM knows: that the first component of every name,
    once renamed by the class, is that of the decoder, an output head or a draft model. That a norm
    beside the layers has the name of one that the class has, where it is known which those are.

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

    - Observed with vLLM 0.32.0's own loader; a norm beside the layers for 30 architectures.

    ## Not checked

    Multimodal classes, whose towers have many names. Biases, which vLLM drops without a word.
    """
    decoder, naming = model.decoder, model.naming
    known_class = naming.architecture.endswith("ForCausalLM") and not naming.wraps
    if decoder is None or not known_class:
        return
    yield from _norms_without_place(model)
    if naming.open_mappings:
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


def _norms_without_place(model: Model) -> Iterator[Fault]:
    """Norms beside the layers that the class does not have."""
    built = model.built
    if built is None or not model.naming.known:
        return
    for module, leaves in model.modules.items():
        if _is_norm(module, leaves) and built.has_beside_layers(module) is False:
            yield Fault(
                message=f"vLLM's {model.naming.architecture} has no norm of this name beside its "
                "layers: it stops while loading (There is no module or parameter named …).",
                module=module,
                expected="a norm that the class has",
                found=module.rpartition(".")[2],
                fix="Give the norm the name that the class has, or remove it.",
                confidence=Confidence.LIKELY,
            )


def _is_norm(module: str, leaves: Leaves) -> bool:
    name = module.rpartition(".")[2]
    return ("norm" in name or name.startswith("ln")) and len(leaves.get("weight", ("", ()))[1]) == 1
