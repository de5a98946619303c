"""QG107 unknown-dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.defects import container_faults
from quantgate.checkpoint.model import DefectKind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.findings import Fault
    from quantgate.model import Model


@rule("QG107", "unknown-dtype")
def check(model: Model) -> Iterator[Fault]:
    """A tensor has a dtype that the safetensors library does not know.

    ## What it checks

    The `dtype` of every tensor against the list of safetensors 0.8.0. Case counts: `bf16` is
    not `BF16`.

    ## Why it matters

    One unknown name makes the whole file unreadable: `SafetensorError: Error while
    deserializing header: invalid JSON in header: unknown variant ..., expected one of BOOL, F4,
    ...`. Names of other libraries (`float8_e4m3fn`, `INT4`, `NVFP4`) are no safetensors dtypes;
    4-bit weights are stored packed in `U8` or `I32`.

    ## Example

    ```
    model.layers.0.mlp.up_proj.weight  INT4 [512, 256]    # packed: I32 [512, 32]
    ```

    ## Fix

    Export with a safetensors library; store packed integers as `I32` or `U8` and FP8 as `F8_E4M3`.

    ## Seen in

    - https://github.com/city96/ComfyUI-GGUF/issues/21 (an older library that did not know F8_E4M3)
    - Observed with safetensors 0.8.0.

    ## Not checked

    Which release of safetensors is installed beside vLLM: an older one knows fewer types.
    """
    yield from container_faults(
        model.checkpoint,
        DefectKind.UNKNOWN_DTYPE,
        message="A tensor of this weight file has a dtype that safetensors does not know",
        error="invalid JSON in header: unknown variant",
        fix="Export the file again with a dtype of the safetensors format.",
    )
