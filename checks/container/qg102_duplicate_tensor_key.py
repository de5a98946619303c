"""QG102 duplicate-tensor-key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.defects import container_faults
from quantgate.checkpoint.model import DefectKind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.findings import Fault
    from quantgate.model import Model


@rule("QG102", "duplicate-tensor-key")
def check(model: Model) -> Iterator[Fault]:
    """A header names the same key twice.

    ## What it checks

    Tensor names that occur more than once in one header, keys that occur twice in one tensor's
    entry, and a second `__metadata__`.

    ## Why it matters

    JSON readers keep one of two equal keys, and not all the same one: the safetensors library,
    and so vLLM, silently keeps the last tensor. If the entries point at different bytes, vLLM
    may load other weights than the tool that checked the file. A `dtype`, `shape` or
    `data_offsets` that occurs twice is refused: `invalid JSON in header: duplicate field`.

    ## Example

    ```
    {"w": {"dtype": "F16", "data_offsets": [0, 8], ...},
     "w": {"dtype": "F16", "data_offsets": [8, 16], ...}}
    ```

    ## Fix

    Write the file again with each name once.

    ## Seen in

    Observed with safetensors 0.8.0; no public report of a model is known.

    ## Not checked

    Equal names in different files (QG205).
    """
    yield from container_faults(
        model.checkpoint,
        DefectKind.DUPLICATE_KEY,
        message="A key occurs more than once in the header of this weight file",
        error="invalid JSON in header: duplicate field",
        fix="Write the file again with each name once.",
    )
