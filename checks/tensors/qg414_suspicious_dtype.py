"""QG414 suspicious-dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.difference import Kind
from quantgate.rules import rule
from quantgate.vllm.loading import shape_consequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG414", "suspicious-dtype", outcome=Outcome.SILENT)
def check(model: Model) -> Iterator[Fault]:
    """A tensor has a type that cannot hold the values meant.

    ## What it checks

    The types of weights, scales and zero points of every quantized module: int32 words for packed
    integers, float scales, uint8 for packed FP4 and MX exponents.

    ## Why it matters

    vLLM copies with a cast and never compares types, so that nothing fails: int32 scales are
    rounded to whole numbers, an F8_E8M0 exponent in a uint8 parameter becomes its value (1.0
    becomes 1 instead of 127). The model starts and answers nonsense. Only a length that does not
    fit ends in an error.

    ## Example

    ```
    config_groups.group_0: mxfp4
    model.layers.0.mlp.up_proj.weight_scale  F8_E8M0 [512, 8]    # vLLM wants U8
    ```

    ## Fix

    Store the tensor in the expected type; reinterpret the bytes of F8_E8M0 and int8, do not
    convert.

    ## Seen in

    Observed with the loader of vLLM 0.32.0.

    ## Not checked

    Scales in F16, BF16 and F32, which vLLM converts. FP8 weights in E5M2 are converted too and only
    warned of: they lose range or precision.
    """
    for module, d in model.differing(Kind.DTYPE):
        lossy = d.outcome is Outcome.CONDITIONAL
        if lossy:
            effect = "vLLM converts the values without a word, and those out of range are lost"
        elif d.outcome is Outcome.FAILS:
            effect = shape_consequence(d.outcome)
        else:
            effect = "vLLM casts the values without a word, and the model answers nonsense"
        yield Fault(
            message=f"{d.leaf} is stored as {d.found} where {d.expected} is meant: {effect}.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=d.expected,
            found=d.found,
            fix=f"Store {d.leaf} as {d.expected}.",
            severity=Severity.WARNING if lossy else None,
            outcome=d.outcome,
        )
