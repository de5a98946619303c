"""QG210 empty-checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG210", "empty-checkpoint")
def check(model: Model) -> Iterator[Fault]:
    """The weight files hold no tensors.

    ## What it checks

    Whether the files that vLLM reads hold any tensor at all. A single empty file among others
    is only a note.

    ## Why it matters

    A healthy header without tensors is what a failed export leaves behind. vLLM loads it: for a
    quantized model nothing checks that all parameters were filled, so the server starts and
    answers nonsense. An unquantized model stops with `ValueError: Following weights were not
    initialized from checkpoint`.

    ## Example

    ```
    model.safetensors    # {"__metadata__": {"format": "pt"}}
    ```

    ## Fix

    Export the model again.

    ## Seen in

    Observed with vLLM 0.32.0's own loader for single lost tensors of every kind; no
    public report of an empty model is known.

    ## Not checked

    Which tensors are missing from a model that has some (QG4xx).
    """
    files = model.checkpoint.loaded_files
    empty = [f for f in files if f.header is not None and not f.header.tensors]
    # A header with defects may have lost its tensors to them.
    empty = [f for f in empty if f.header is not None and not f.header.defects]
    if empty and len(empty) == len(files):
        declared = model.declaration is not None
        yield Fault(
            message="No weight file holds a tensor. vLLM does not check quantized models for "
            "completeness: it starts with uninitialised weights."
            if declared
            else "No weight file holds a tensor: vLLM stops with `ValueError: Following weights "
            "were not initialized from checkpoint`.",
            tensor=empty[0].name,
            expected="tensors",
            found="none",
            fix="Export the model again.",
            outcome=Outcome.SILENT if declared else Outcome.FAILS,
        )
        return
    for file in empty:
        yield Fault(
            message="This weight file holds no tensor. vLLM loads the others.",
            tensor=file.name,
            found="no tensor",
            fix="Delete the file, or export again if it should not be empty.",
            severity=Severity.INFO,
            outcome=Outcome.COSMETIC,
        )
