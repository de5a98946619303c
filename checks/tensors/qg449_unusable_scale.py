"""QG449 unusable-scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault, Outcome
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

_LEAVES = frozenset(
    ["weight_scale", "weight_scale_2", "weight_global_scale", "input_scale", "input_global_scale"]
)


@rule("QG449", "unusable-scale", outcome=Outcome.SILENT)
def check(model: Model) -> Iterator[Fault]:
    """A stored scale is NaN, infinite or zero.

    ## What it checks

    With `--read-scalars`: the values of all scales that are a few numbers (per-tensor weight and
    input scales, global scales of NVFP4).

    ## Why it matters

    vLLM loads whatever is stored. A scale that is NaN or infinite makes every output of the layer
    NaN, and the model answers with `!!!!!!!!` or not at all. A zero does the same where vLLM
    divides by it, and otherwise silences the layer. Such values come from a calibration that never
    reached an expert, or from an overflow while a checkpoint was converted. In an expert the fault
    depends on the prompt: only tokens that are routed to it are lost.

    ## Example

    ```
    model.layers.0.mlp.down_proj.input_scale   0.0
    ```

    ## Fix

    Calibrate again with data that reaches the module, and export it again.

    ## Seen in

    - https://github.com/vllm-project/compressed-tensors/pull/595 (14 of 92,400 input scales)
    - https://github.com/vllm-project/compressed-tensors/issues/832
    - https://github.com/vllm-project/vllm/issues/45212 (what a zero does to one expert)

    ## Not checked

    Anything without `--read-scalars`. Scales per channel, group or block, and those of the KV
    cache.
    """
    for name, values in (model.checkpoint.scalars or {}).items():
        module, _, leaf = name.rpartition(".")
        if leaf not in _LEAVES:
            continue
        bad = sorted({word for value in values if (word := _unusable(value))})
        if bad:
            yield Fault(
                message="The stored scale cannot be used: vLLM loads it without a word, and the "
                "layer computes NaN or nothing.",
                module=module,
                tensor=name,
                expected="a number above zero",
                found=", ".join(bad),
                fix="Calibrate with data that reaches the module, and export it again.",
                confidence=Confidence.LIKELY if bad == ["zero"] else Confidence.CERTAIN,
            )


def _unusable(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinite"
    return "zero" if value == 0 else ""
