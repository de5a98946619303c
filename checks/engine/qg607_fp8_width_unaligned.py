"""QG607 fp8-width-unaligned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.observed import observe
from quantgate.quantization.scheme import Layout, Strategy
from quantgate.rules import rule
from quantgate.vllm.loading import Slicing, slicing_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model
    from quantgate.vllm.layers import Layer

ALIGNMENT = 16
# The padding came with 0.23.0; 0.33.0 sets the attribute directly and no longer trips over it
# (kernels/linear/scaled_mm/cutlass.py). Between 0.19.1 and 0.23.0 the exact release is not known.
BROKEN_FROM, FIXED_IN = (0, 23), (0, 33)
CUTLASS_CAPABILITY = 89


@rule("QG607", "fp8-width-unaligned", per_target=True, methods={"compressed-tensors"})
def check(model: Model) -> Iterator[Fault]:
    """An FP8 layer with channel scales has a width that this release cannot pad.

    ## What it checks

    For FP8 W8A8 with one scale per channel: that the rows of each vLLM layer (gate and up together,
    q, k and v together) are a multiple of 16, on each rank.

    ## Why it matters

    The CUTLASS kernel, which vLLM takes on sm_89 and newer, pads such a weight and its scale. From
    0.23.0 to 0.32.0 it sets an attribute twice while it does so and stops after loading:
    `AssertionError: Overwriting existing tensor attribute: weight_loader`. 0.33.0 pads it.

    ## Example

    ```
    --target vllm=0.32.0,gpu=sm90
    model.layers.0.mlp.gate_proj.weight    F8_E4M3 [516, 256]
    model.layers.0.mlp.up_proj.weight      F8_E4M3 [516, 256]     # 1032 rows, not a multiple of 16
    ```

    ## Fix

    Serve with vLLM 0.33.0 or newer, keep these layers dense, or quantize them per tensor.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader; the fix is in the source of 0.33.0.

    ## Not checked

    The rows of q, k and v on one rank of several.
    """
    version, capability = model.target.version, model.target.capability
    if (
        not BROKEN_FROM <= version < FIXED_IN
        or (capability or CUTLASS_CAPABILITY) < CUTLASS_CAPABILITY
    ):
        return
    if model.target.gpu and capability is None:
        return
    for layer in model.layers:
        decision = model.decisions.get(layer.prefix)
        scheme = decision.scheme if decision else None
        if (
            scheme is None
            or scheme.layout is not Layout.FP8
            or scheme.strategy is not Strategy.CHANNEL
            or scheme.activations is None
            or layer.cls in {"RoutedExperts", "ParallelLMHead"}  # a head is padded already
        ):
            continue
        rows = _rows(model, layer)
        if rows % ALIGNMENT:
            named = capability is not None
            yield Fault(
                message="On sm_89 and newer this release stops after loading such a layer "
                "(Overwriting existing tensor attribute: weight_loader); vLLM 0.33.0 pads it.",
                module=layer.prefix,
                expected=f"a multiple of {ALIGNMENT} rows",
                found=f"{rows} rows",
                fix="Serve with vLLM 0.33.0 or newer, or keep these layers dense.",
                severity=None if named else Severity.WARNING,
                outcome=None if named else Outcome.CONDITIONAL,
            )


def _rows(model: Model, layer: Layer) -> int:
    """Rows of the layer's weight on one rank; 0 where that is not known."""
    known = [observe(model.modules[m]).n for m in layer.modules]
    rows = sum(n for n in known if n is not None) if None not in known else 0
    size = model.target.tensor_parallel
    if size == 1 or slicing_of(layer.modules[0]) is not Slicing.COLUMN:
        return rows
    space = model.state_spaces.get(layer.modules[0])
    if space is not None:
        return space.share(size)
    of_heads = layer.cls == "QKVParallelLinear"
    return rows // size if rows % size == 0 and not of_heads else 0
