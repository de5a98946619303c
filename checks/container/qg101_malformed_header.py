"""QG101 malformed-header."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.defects import container_faults
from quantgate.checkpoint.model import DefectKind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.findings import Fault
    from quantgate.model import Model


@rule("QG101", "malformed-header")
def check(model: Model) -> Iterator[Fault]:
    """The header of a weight file is not what the safetensors format says.

    ## What it checks

    The 8 bytes of length, and after them JSON in UTF-8: an object of tensors, each with a
    string `dtype`, a list `shape` and two `data_offsets`. A header of more than 100 MB is
    refused, as by the safetensors library. Reported as a warning, because the library lets them
    pass: tensor names with control or invisible characters, space before the first brace,
    entries written as lists.

    ## Why it matters

    vLLM opens every weight file with `safe_open`. One bad header ends the load with
    `SafetensorError: Error while deserializing header`, followed by `header too small`, `header
    too large`, `invalid header length` or `invalid JSON in header` (`HeaderTooLarge`,
    `InvalidHeaderDeserialization` in older releases). An HTML page that was saved under the
    file's name gives `header too large`. A name with invisible characters matches no parameter
    of the model.

    ## Example

    ```
    model.safetensors: 3c 21 44 4f 43 54 59 50 ...    # "<!DOCTYPE html>" read as a length
    ```

    ## Fix

    Download or export the file again.

    ## Seen in

    - https://github.com/huggingface/transformers/issues/27397
    - https://github.com/safetensors/safetensors/issues/601
    - https://github.com/kijai/ComfyUI-CogVideoXWrapper/issues/239

    ## Not checked

    Git LFS pointer files (QG209). Files that vLLM does not open: they only give a warning.
    """
    yield from container_faults(
        model.checkpoint,
        DefectKind.MALFORMED,
        DefectKind.TOO_LARGE,
        message="The header of this weight file is malformed",
        error="invalid JSON in header` or `header too large",
        fix="Download or export the file again; it is not a complete safetensors file.",
    )
