"""QG106 byte-size-mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.defects import container_faults
from quantgate.checkpoint.model import DefectKind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.findings import Fault
    from quantgate.model import Model


@rule("QG106", "byte-size-mismatch")
def check(model: Model) -> Iterator[Fault]:
    """A tensor has more or fewer bytes than its dtype and shape give.

    ## What it checks

    Elements times bits of the dtype against `data_offsets`, for every tensor; sub-byte types
    (`F4`, `F6_E2M3`) must fill whole bytes.

    ## Why it matters

    The load ends with `SafetensorError: Error while deserializing header: invalid shape, data
    type, or offset for tensor` (`TensorInvalidInfo` in older releases), without the tensor's
    name. A tool that renames the dtype of packed weights in the header, or writes the logical
    shape of a packed tensor, makes such a file.

    ## Example

    ```
    model.layers.0.mlp.up_proj.weight_packed  U8 [512, 256]  data_offsets [0, 65536]
    # 512 * 256 elements of one byte need 131072
    ```

    ## Fix

    Write the tensor with the shape and dtype that its bytes really have: `U8 [N, K/2]` for two
    4-bit values in a byte.

    ## Seen in

    Observed with safetensors 0.8.0; no public report of a model is known.

    ## Not checked

    Tensors of an unknown dtype (QG107), as their size is unknown.
    """
    yield from container_faults(
        model.checkpoint,
        DefectKind.BYTE_SIZE,
        message="A tensor of this weight file has another number of bytes than its dtype and "
        "shape give",
        error="invalid shape, data type, or offset for tensor",
        fix="Write the file again with the dtype and shape that the bytes really have.",
    )
