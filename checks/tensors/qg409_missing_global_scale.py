"""QG409 missing-global-scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.quantization.difference import Kind
from quantgate.quantization.expected import Role
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG409", "missing-global-scale", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """An NVFP4 weight lacks its global scale.

    ## What it checks

    `weight_global_scale` of every NVFP4 module of compressed-tensors, and `input_global_scale`
    where the activations are quantized too; `weight_scale_2` of ModelOpt.

    ## Why it matters

    vLLM checks only unquantized models for completeness. In a quantized one the parameter keeps
    whatever the memory held, the server starts, and the model answers nonsense. In a fused layer
    (`qkv_proj`, `gate_up_proj`) one missing part spoils the others too. The global scale multiplies
    the whole matrix, so that nothing of the layer survives.

    ## Example

    ```
    model.layers.0.mlp.up_proj.weight_packed  U8 [512, 128]
    model.layers.0.mlp.up_proj.weight_scale   F8_E4M3 [512, 16]   # no weight_global_scale
    ```

    ## Fix

    Export the module again. Weight-only NVFP4 is declared with `input_activations: null`, and then
    no `input_global_scale` is needed.

    ## Seen in

    Observed with the loader of vLLM 0.32.0.

    ## Not checked

    Whether the scale is a divisor (compressed-tensors) or a factor (ModelOpt); values are never
    read.
    """
    for module, d in model.differing(Kind.MISSING):
        if d.role is not Role.GLOBAL_SCALE:
            continue
        yield Fault(
            message="The global scale of an NVFP4 weight or its inputs is missing. vLLM "
            "starts without a word, keeps uninitialised memory in its place, and the layer "
            "computes nonsense.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=d.expected,
            found=d.found,
            fix="Export the module again; without quantized inputs, declare "
            "`input_activations: null`."
            if d.leaf.startswith("input")
            else "Export the module again; check whether a weight file or an index entry was lost.",
            outcome=d.outcome,
        )
