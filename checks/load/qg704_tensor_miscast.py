"""QG704 tensor-miscast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import DRY_LOAD, Fault, Outcome
from quantgate.rules import rule
from quantgate.vllm.dry_load.words import silent_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.vllm.dry_load.result import DryLoad


@rule("QG704", "tensor-miscast", outcome=Outcome.SILENT, per_target=True, tier=DRY_LOAD)
def check(load: DryLoad) -> Iterator[Fault]:
    """VLLM's own loader converts a tensor to another kind of type.

    ## What it checks

    The dry load: the types of each tensor in the checkpoint and of the parameter it was copied
    into. Between BF16, F16 and F32 a conversion is meant; between FP8 and those, or between
    integers and floats, it is not. It is told only where no other rule says that the model is
    silently wrong.

    ## Why it matters

    A copy in torch converts the numbers, it does not reinterpret the bits: packed integers become
    floats of some thousands of millions, and FP8 weights arrive without their scale.

    ## Example

    ```
    model.layers.1.mlp.down_proj.weight    bfloat16 into float8_e4m3fn
    ```

    ## Fix

    Declare the layer as what is stored: in the list of ignored layers if it is not quantized.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader: dense weights under an FP8 declaration.

    ## Not checked

    Whether values survive a conversion that is meant.
    """
    yield from silent_faults(
        load,
        {
            "miscast": "vLLM {release} loads this model without an error{rank} and converts these "
            "tensors to another kind of type",
        },
        "Declare these layers as what is stored.",
    )
