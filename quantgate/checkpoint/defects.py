"""From the defects of weight files to faults: one per file, and what vLLM makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.model import DefectKind
from quantgate.findings import Fault, Outcome, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quantgate.checkpoint.model import Checkpoint, Defect, WeightFile

_MAX_NAME = 80


def defects_of(file: WeightFile, *kinds: DefectKind) -> list[Defect]:
    """The defects of these kinds, of the file and of its header."""
    found = (*file.defects, *(file.header.defects if file.header else ()))
    return [d for d in found if d.kind in kinds]


def container_faults(
    checkpoint: Checkpoint, *kinds: DefectKind, message: str, error: str, fix: str
) -> Iterator[Fault]:
    """One fault for each weight file with defects of these kinds, and one for strict defects.

    Args:
        checkpoint: Whose files.
        kinds: The defects that the rule speaks of.
        message: What is wrong, a sentence without its end.
        error: What the safetensors library says about it (release 0.8.0).
        fix: What to do.
    """
    loaded = {f.name for f in checkpoint.loaded_files}
    for file in checkpoint.files:
        defects = defects_of(file, *kinds)
        refused = [d for d in defects if not d.strict]
        # A header above quantgate's own budget was not read at all: another rule says so.
        strict = [d for d in defects if d.strict and d.kind is not DefectKind.TOO_LARGE]
        if refused and file.name in loaded:
            yield Fault(
                message=f"{message}: safetensors refuses the file, and vLLM stops while loading "
                f"with `SafetensorError: Error while deserializing header: {error}`.",
                tensor=file.name,
                found=summary_of(refused),
                fix=fix,
            )
        elif refused:
            yield Fault(
                message=f"{message}. vLLM loads no weights from this file, because the index does "
                "not name it or because it reads only `consolidated*.safetensors`, but other "
                "tools will.",
                tensor=file.name,
                found=summary_of(refused),
                fix=fix,
                severity=Severity.WARNING,
                outcome=Outcome.COSMETIC,
            )
        if strict:
            yield Fault(
                message=f"{message}. The safetensors library lets it pass, so vLLM loads the "
                "file, but which reading was meant is a guess, and other readers may differ.",
                tensor=file.name,
                found=summary_of(strict),
                fix=fix,
                severity=Severity.WARNING,
                outcome=Outcome.CONDITIONAL,
            )


def summary_of(defects: Sequence[Defect]) -> str:
    """The first defect, with its tensor, and how many more there are."""
    first = defects[0]
    name = first.tensor if len(first.tensor) <= _MAX_NAME else first.tensor[: _MAX_NAME - 1] + "…"
    text = f"{name}: {first.message}" if name else first.message
    more = len(defects) - 1
    return f"{text} (and {more} more)" if more else text
