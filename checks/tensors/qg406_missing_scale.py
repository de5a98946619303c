"""QG406 missing-scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.quantization.difference import Kind
from quantgate.quantization.expected import Role
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG406", "missing-scale", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """A quantized weight has no scale.

    ## What it checks

    That every module with a declared scheme has the weight scale that vLLM allocates: `scales` for
    GPTQ and AWQ, `weight_scale` for compressed-tensors and FP8, `weight_scale_inv` for block FP8. A
    scale under another name belongs to QG411.

    ## Why it matters

    vLLM checks only unquantized models for completeness. In a quantized one the parameter keeps
    whatever the memory held, the server starts, and the model answers nonsense. In a fused layer
    (`qkv_proj`, `gate_up_proj`) one missing part spoils the others too.

    ## Example

    ```
    model.layers.0.self_attn.k_proj.qweight  I32 [32, 128]
                                                   # no model.layers.0.self_attn.k_proj.scales
    ```

    ## Fix

    Export the module again; check whether a weight file or an index entry was lost.

    ## Seen in

    - https://github.com/vllm-project/vllm/pull/57108

    ## Not checked

    The values. A scale of ones, zeros or NaN passes.
    """
    renamed = {m for m, d in model.differing(Kind.SURPLUS) if "scale" in d.leaf}
    for module, d in model.differing(Kind.MISSING):
        if d.role is not Role.SCALE or module in renamed:
            continue
        yield Fault(
            message="The scale of a quantized weight is missing. vLLM starts without a word, "
            "scales with uninitialised memory, and the layer computes nonsense.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=d.expected,
            found=d.found,
            fix="Export the module again; check whether a weight file or an index entry was lost.",
            outcome=d.outcome,
        )
