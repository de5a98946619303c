"""QG405 transposed-weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.difference import Kind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG405", "transposed-weight")
def check(model: Model) -> Iterator[Fault]:
    """A weight lies on its side: both axes are swapped.

    ## What it checks

    Whether the shape of the weight is exactly the expected one read backwards, where scales,
    config.json or neighbouring tensors tell N and K.

    ## Why it matters

    vLLM wants [N, K] (GPTQ: [K/8, N], AWQ: [K, N/8]). A transposed weight ends the load in a bare
    `AssertionError` or `start (0) + length (..) exceeds dimension size`. A square one has the right
    shape and gives nonsense.

    ## Example

    ```
    model.layers.0.mlp.down_proj.weight        F8_E4M3 [512, 256]    # [K, N]
    model.layers.0.mlp.down_proj.weight_scale  F32 [256, 1]          # N = 256
    ```

    ## Fix

    Transpose the weight when exporting, and make it contiguous.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/50577

    ## Not checked

    Square weights: their shape is the same on either side.
    """
    for module, d in model.differing(Kind.TRANSPOSED):
        yield Fault(
            message="The weight is stored with both axes swapped; the load ends in a bare "
            "`AssertionError` or `start (0) + length (..) exceeds dimension size`.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=d.expected,
            found=d.found,
            fix="Transpose the weight when exporting, and store it contiguously.",
            outcome=d.outcome,
        )
