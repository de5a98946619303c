"""The report on the branch that a pull request goes into, where a run there has left one."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import TYPE_CHECKING

from quantgate.github.api import ApiError
from quantgate.report.from_json import MAX_BYTES, load_report
from quantgate.report.model import Report

if TYPE_CHECKING:
    from quantgate.github.api import Api

ARTIFACT = "quantgate-report"
FILE = "report.json"
# Runs that only looked at what they touched each know a part of the models.
MAX_RUNS = 5


def report_before(api: Api, branch: str, report: Report) -> Report | None:
    """What is known of the models of a report on another branch, None if that is nothing.

    Of each model, the newest of the last runs that looked at it counts. Nothing in here stops
    anything: without `actions: read` or without such artifacts there is no comparison.
    """
    wanted = {m.source for m in report.models}
    if not (branch and wanted):
        return None
    found: list[Report] = []
    try:
        for number in api.artifacts(ARTIFACT, branch)[:MAX_RUNS]:
            older = _unpacked(api.artifact(number, MAX_BYTES))
            models = tuple(m for m in older.models if m.source in wanted) if older else ()
            if older and models:
                found.append(Report(older.targets, models))
                wanted -= {m.source for m in models}
            if not wanted:
                break
    except ApiError:
        pass  # what was found so far is as true as before
    if not found:
        return None
    return Report(found[0].targets, tuple(m for r in found for m in r.models))


def _unpacked(archive: bytes) -> Report | None:
    """The report in an archive; only the one file is read, and no more of it than allowed."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as files, files.open(FILE) as file:
            content = file.read(MAX_BYTES + 1)
        return load_report(content.decode()) if len(content) <= MAX_BYTES else None
    except (zipfile.BadZipFile, zlib.error, LookupError, OSError, RuntimeError, ValueError):
        return None  # encrypted, damaged, without the file, or no report
