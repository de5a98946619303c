"""QG103 offset-gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.defects import container_faults
from quantgate.checkpoint.model import DefectKind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.findings import Fault
    from quantgate.model import Model


@rule("QG103", "offset-gap")
def check(model: Model) -> Iterator[Fault]:
    """The tensors of a weight file leave a gap or overlap.

    ## What it checks

    Tensors, in the order of their offsets, must fill the data area without a gap and without
    sharing a byte, and none may end before it begins.

    ## Why it matters

    The safetensors library checks the offsets of all tensors before it hands out the first one.
    The load ends with `SafetensorError: Error while deserializing header: invalid offset for
    tensor`, in older releases `InvalidOffset`.

    ## Example

    ```
    a  F32 [2]  data_offsets [0, 8]
    b  F32 [2]  data_offsets [16, 24]    # 8 bytes belong to nobody
    ```

    ## Fix

    Write the file with a safetensors library. Tools that edit headers in place (dropping a
    tensor, renaming) must move the data as well.

    ## Seen in

    - https://github.com/huggingface/safetensors/blob/main/README.md#format (the rule of the format)
    - Observed with safetensors 0.8.0.

    ## Not checked

    Headers with entries that make no sense (QG101): their layout cannot be told.
    """
    yield from container_faults(
        model.checkpoint,
        DefectKind.OFFSETS,
        message="The tensors of this weight file leave a gap or overlap",
        error="invalid offset for tensor",
        fix="Write the file again with a safetensors library; do not edit its header in place.",
    )
