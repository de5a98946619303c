"""QG104 truncated-file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.defects import container_faults
from quantgate.checkpoint.model import DefectKind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.findings import Fault
    from quantgate.model import Model


@rule("QG104", "truncated-file")
def check(model: Model) -> Iterator[Fault]:
    """A weight file ends before its data does.

    ## What it checks

    The end of the last tensor, or of the header itself, lies beyond the end of the file.

    ## Why it matters

    An upload or download that broke off. The configs and the first bytes look healthy, and the
    load ends with `SafetensorError: Error while deserializing header: incomplete metadata, file
    not fully covered`, in older releases `MetadataIncompleteBuffer`, or `invalid header length`
    if not even the header is complete.

    ## Example

    ```
    model-00001-of-00011.safetensors    # the header needs 3998231040 bytes, the file has less
    ```

    ## Fix

    Upload or download the file again and compare its size or SHA-256.

    ## Seen in

    - https://github.com/QwenLM/Qwen3-VL/issues/264 (Qwen2-VL-72B-Instruct-AWQ, served with vLLM)
    - https://github.com/PersuGPT/PersuGPT.github.io/issues/2

    ## Not checked

    The bytes themselves: a file of the right size with damaged weights looks healthy.
    """
    yield from container_faults(
        model.checkpoint,
        DefectKind.TRUNCATED,
        message="This weight file ends before its data does",
        error="incomplete metadata, file not fully covered",
        fix="Upload or download the file again and compare its size.",
    )
