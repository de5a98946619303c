"""JSON reports of earlier jobs: read, validated, and put together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from quantgate.github.select import SelectionError, read_checkout
from quantgate.report.from_json import MAX_BYTES, ReportError, load_report
from quantgate.report.merge import merge_reports
from quantgate.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quantgate.report.model import Report

MAX_REPORTS = 256


def read_reports(
    patterns: Sequence[str],
    workspace: Path,
    models: Sequence[str] = (),
    tiers: Sequence[str] = (),
) -> Report:
    """One report from the files that the patterns match.

    Args:
        patterns: Paths or patterns in the checkout.
        workspace: The checkout.
        models: What must be among them.
        tiers: What every model must have been through.

    Raises:
        SelectionError: A pattern matches nothing, or a file is no report: the gate stays closed.
    """
    files = [name for pattern in patterns for name in _files(pattern, workspace)]
    if len(files) > MAX_REPORTS:
        raise SelectionError(f"there are {len(files):,} reports, and at most {MAX_REPORTS} jobs")
    read = [_read(name, workspace) for name in dict.fromkeys(files)]
    return merge_reports(read, models=models, tiers=tiers)


def _files(pattern: str, workspace: Path) -> list[str]:
    if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
        raise SelectionError(f"the report {pattern!r} is not within the checkout")
    found = sorted(p for p in workspace.glob(pattern) if p.is_file())
    if not found:
        raise SelectionError(f"there is no report {pattern!r}; did the job before leave one?")
    return [p.relative_to(workspace).as_posix() for p in found]


def _read(name: str, workspace: Path) -> Report:
    try:
        return load_report(read_checkout(workspace, name, MAX_BYTES) or "")
    except (ReportError, SettingsError) as error:
        raise SelectionError(f"{name!r} cannot be used: {error}") from None
