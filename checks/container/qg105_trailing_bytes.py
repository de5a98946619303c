"""QG105 trailing-bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.defects import container_faults
from quantgate.checkpoint.model import DefectKind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.findings import Fault
    from quantgate.model import Model


@rule("QG105", "trailing-bytes")
def check(model: Model) -> Iterator[Fault]:
    """A weight file goes on after its last tensor.

    ## What it checks

    Bytes that belong to no tensor after the end of the data area.

    ## Why it matters

    The safetensors library wants the header to account for every byte, so that nothing can hide
    in a file. The load ends with `SafetensorError: Error while deserializing header: incomplete
    metadata, file not fully covered` (`MetadataIncompleteBuffer`), the same words as for a file
    that is too short.

    ## Example

    ```
    model.safetensors: the file has 512 bytes after the last tensor
    ```

    ## Fix

    Download the file again; if it is like this at its origin, load it with a lenient reader and
    save it with a safetensors library.

    ## Seen in

    - https://github.com/Comfy-Org/ComfyUI/issues/15602

    ## Not checked

    What the extra bytes are.
    """
    yield from container_faults(
        model.checkpoint,
        DefectKind.TRAILING,
        message="This weight file goes on after its last tensor",
        error="incomplete metadata, file not fully covered",
        fix="Write the file again with a safetensors library, so that it ends with its last "
        "tensor.",
    )
