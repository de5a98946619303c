"""Reports read from files. What cannot be read is a model that could not be verified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from quantgate.report.from_json import MAX_BYTES, ReportError, load_report
from quantgate.report.merge import absent
from quantgate.report.model import Report

if TYPE_CHECKING:
    from collections.abc import Iterable


def read_report(path: str) -> Report:
    """The report in a JSON file.

    Raises:
        ReportError: The file cannot be read or is not a report.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        return load_report(data.decode())
    except OSError as error:
        raise ReportError(error.strerror or "it cannot be read") from None
    except UnicodeDecodeError:
        raise ReportError("the report is not UTF-8") from None


def read_reports(paths: Iterable[str]) -> list[Report]:
    """Each file as a report; one that is not stands for models that nobody knows anything of."""
    return [_read_or_absent(path) for path in dict.fromkeys(paths)]


def _read_or_absent(path: str) -> Report:
    try:
        return read_report(path)
    except ReportError as error:
        return Report((), (absent(path, f"This part of the report is missing: {error}."),))
