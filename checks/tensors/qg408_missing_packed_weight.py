"""QG408 missing-packed-weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.quantization.difference import Kind
from quantgate.quantization.expected import Role
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG408", "missing-packed-weight", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """The quantized weight itself is missing while its scales are there.

    ## What it checks

    `qweight`, `weight_packed` or `weight` of every module of which at least a scale is stored and
    that has a declared scheme.

    ## Why it matters

    vLLM checks only unquantized models for completeness. In a quantized one the parameter keeps
    whatever the memory held, the server starts, and the model answers nonsense. In a fused layer
    (`qkv_proj`, `gate_up_proj`) one missing part spoils the others too.

    ## Example

    ```
    model.layers.0.mlp.up_proj.scales  F16 [2, 512]
    model.layers.0.mlp.up_proj.qzeros  I32 [2, 64]            # no qweight
    ```

    ## Fix

    Export the module again; check whether a weight file or an index entry was lost.

    ## Seen in

    - https://github.com/ModelCloud/GPTQModel/pull/3077

    ## Not checked

    Modules of which nothing is stored.
    """
    for module, d in model.differing(Kind.MISSING):
        if d.role is not Role.WEIGHT:
            continue
        yield Fault(
            message="Scales are stored, but the weight itself is missing. vLLM starts "
            "without a word, keeps uninitialised memory in its place, and the layer computes "
            "nonsense.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=d.expected,
            found=d.found,
            fix="Export the module again; check whether a weight file or an index entry was lost.",
            outcome=d.outcome,
        )
