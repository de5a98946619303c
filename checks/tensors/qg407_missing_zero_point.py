"""QG407 missing-zero-point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.quantization.difference import Kind
from quantgate.quantization.expected import Role
from quantgate.quantization.symmetry import mistaken_schemes
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG407", "missing-zero-point", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """An asymmetric weight has no zero points.

    ## What it checks

    `qzeros` of AWQ modules, and `weight_zero_point` of compressed-tensors modules that are declared
    asymmetric, where other modules have it. If no module has zero points, the declaration is at
    fault (QG415).

    ## Why it matters

    vLLM checks only unquantized models for completeness. In a quantized one the parameter keeps
    whatever the memory held, the server starts, and the model answers nonsense. In a fused layer
    (`qkv_proj`, `gate_up_proj`) one missing part spoils the others too.

    ## Example

    ```
    quantization_config: {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true}
    model.layers.0.mlp.up_proj.qweight  I32 [256, 64]
    model.layers.0.mlp.up_proj.scales   F16 [2, 512]          # no qzeros
    ```

    ## Fix

    Export the module again with its zero points. AWQ needs `qzeros` even with `zero_point: false`.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/3392

    ## Not checked

    Symmetric GPTQ files without `qzeros`, which load and answer right.
    """
    mistaken = mistaken_schemes(model)
    for module, d in model.differing(Kind.MISSING, Kind.SYMMETRY):
        if d.role is not Role.ZERO_POINT or d.found != "absent":
            continue
        if d.kind is Kind.SYMMETRY and model.schemes[module] in mistaken:
            continue
        yield Fault(
            message="The zero points of an asymmetric weight are missing. vLLM starts "
            "without a word, subtracts uninitialised memory, and the layer computes "
            "nonsense.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=d.expected,
            found=d.found,
            fix="Export these modules again with their zero points.",
            outcome=d.outcome,
        )
