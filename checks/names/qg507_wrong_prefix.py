"""QG507 wrong-prefix."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

_ROOT = re.compile(r"^((?:[^.]+\.)*?)(?:layers|h|blocks)\.\d+\.")


@rule("QG507", "wrong-prefix", of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """The names of the decoder's layers do not begin as vLLM's model class expects.

    ## What it checks

    The prefix of the layers once the model class has renamed it: that there is one at all
    (`model.layers.0`, not `layers.0`), that no part of it is there twice
    (`model.model.layers.0`), and that a text-only class does not get `language_model.`, or any
    other prefix than its own, where that is known.

    ## Why it matters

    vLLM groups tensors by their first component and looks for a module of that name: `There is no
    module or parameter named 'layers' in LlamaForCausalLM`, or `KeyError` in model classes with a
    loop of their own.

    ## Example

    ```
    LlamaForCausalLM
    model.model.layers.0.self_attn.q_proj.weight
    ```

    ## Fix

    Save the model from the class that config.json names, so that the prefix is the class's own.

    ## Seen in

    - https://github.com/vllm-project/llm-compressor/issues/2568
    - Observed with vLLM 0.32.0's own loader: a doubled and a missing prefix.

    ## Not checked

    Architectures that vLLM does not know or whose names are only made at run time.
    """
    decoder, naming = model.decoder, model.naming
    if decoder is None or naming.open_mappings:
        return
    mapped = naming.module(f"{decoder.root}.0.mlp")
    match = _ROOT.match(mapped) if mapped else None
    if match is None:
        return
    parts = match[1].rstrip(".").split(".") if match[1] else []
    wrapped = bool(naming.wraps)
    own = model.built.root if model.built and not wrapped else None
    if not parts:
        found = "no prefix"
    elif len(set(parts)) < len(parts):
        found = f"{match[1]} (a part is there twice)"
    elif "language_model" in parts and not wrapped:
        found = f"{match[1]} (a prefix of multimodal wrappers)"
    elif own and parts != own.split(".") and naming.architecture.endswith("ForCausalLM"):
        found = match[1]
    else:
        return
    yield Fault(
        message=f"vLLM's class for {naming.architecture} has no module at this place: it stops "
        "while loading (There is no module or parameter named …).",
        module=decoder.root,
        expected="language_model.model." if wrapped else f"{own or 'model'}.",
        found=found,
        fix="Save the model from the class that config.json names, or name the class that these "
        "names belong to.",
        confidence=Confidence.LIKELY,
    )
