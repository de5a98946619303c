"""QG506 layer-without-target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule
from quantgate.vllm.layers import is_router

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

# Other classes than LinearBase are dense without being looked up.
_NO_LINEAR = frozenset({"ParallelLMHead", "VocabParallelEmbedding"})
_TOWERS = ("vision", "visual", "audio", "speech", "projector", "multi_modal", "mtp")
_ERROR = "Unable to find matching target"


@rule("QG506", "layer-without-target", methods=["compressed-tensors"])
def check(model: Model) -> Iterator[Fault]:
    """No target reaches a layer that is not ignored either, which older releases refuse.

    ## What it checks

    For releases up to 0.19: every Linear layer is reached by a target of `config_groups` or by the
    ignore list.

    ## Why it matters

    vLLM stops while it builds the model: `ValueError: Unable to find matching target for
    model.layers.0.self_attn.o_proj in the compressed-tensors config`. From 0.23 on such a layer is
    dense.

    ## Example

    ```
    config_groups: {group_0: {targets: ["re:.*mlp.*"], …}}
    ignore: [lm_head]      # and the attention?
    ```

    ## Fix

    Name the layers in the ignore list, or serve with vLLM 0.23 or newer.

    ## Seen in

    - compressed_tensors/utils.py find_matched_target of vLLM 0.10.2 to 0.19.1.

    ## Not checked

    Routers, and layers of towers and draft models, most of which vLLM builds without a
    quantization config.
    """
    for layer in model.layers:
        prefix = layer.prefix
        decision = model.decisions.get(prefix)
        if layer.cls in _NO_LINEAR or is_router(prefix) or any(t in prefix for t in _TOWERS):
            continue
        if decision is not None and decision.error.startswith(_ERROR):
            yield Fault(
                message="No target names this layer and the ignore list does not either. vLLM "
                f"{model.target.release} stops while it builds the model: `{_ERROR}`; from 0.23 on "
                "it takes the layer for a dense one.",
                module=prefix,
                expected="a target or an ignore entry",
                found="neither",
                fix="Add these layers to ignore.",
            )
