"""QG412 wrong-shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.difference import Kind
from quantgate.rules import rule
from quantgate.vllm.loading import shape_consequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG412", "wrong-shape")
def check(model: Model) -> Iterator[Fault]:
    """A tensor of a quantized module has another shape than vLLM allocates.

    ## What it checks

    Every weight, scale and zero point against the shape that the declared scheme gives for the size
    of the module, which its other tensors, config.json or its neighbours tell. Where one cause
    explains all tensors, another rule names it (QG401 bits, QG402 group size, QG405 transposed,
    QG418 size).

    ## Why it matters

    On an axis that the layer slices, vLLM takes as many entries as it needs: a tensor that is too
    long is cut without a word, also with one GPU. Everything else fails, with a bare
    `AssertionError`, `start (0) + length (..) exceeds dimension size`, or `The size of tensor a
    must match`. The experts' loader stretches or cuts tensors that are too small.

    ## Example

    ```
    model.layers.0.mlp.up_proj.qweight  I32 [32, 512]    # K = 256, N = 512
    model.layers.0.mlp.up_proj.scales   F16 [1, 512]     # group size 128 wants [2, 512]
    ```

    ## Fix

    Export the module again.

    ## Seen in

    - https://github.com/intel/auto-round/issues/2174

    ## Not checked

    Modules whose size neither config.json nor another tensor tells.
    """
    for module, d in model.differing(Kind.SHAPE):
        yield Fault(
            message=f"{d.leaf} has another shape than vLLM allocates: "
            f"{shape_consequence(d.outcome)}.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=d.expected,
            found=d.found,
            fix=f"Export the module again, with {d.leaf} of the expected shape.",
            outcome=d.outcome,
        )
