"""Show a report where a workflow looks: report files, job summary, log, annotations, outputs.

Nothing in here decides: what cannot be written becomes a warning and leaves the exit code alone.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

from quantgate.findings import Severity
from quantgate.github.commands import annotate, command, stop_commands
from quantgate.github.outputs import append_summary, write_outputs
from quantgate.report.as_json import to_json_text
from quantgate.report.markdown import to_markdown
from quantgate.report.text import to_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quantgate.github.job import Job
    from quantgate.report.model import Report

# Well below what GitHub takes as a summary, far above what anybody reads.
MARKDOWN_BUDGET = 512 * 1024


def publish(report: Report, job: Job, folder: Path) -> None:
    """Write everything that a run leaves behind; `folder` takes `report.md` and `report.json`."""
    with stop_commands(sys.stdout):
        sys.stdout.write(to_text(report))
    for line in annotate(report):
        say(line)
    markdown = to_markdown(report, budget=MARKDOWN_BUDGET)
    _try("the report files", lambda: _write_files(report, markdown, folder))
    summary, outputs = job.summary, job.outputs
    if summary:
        _try("the job summary", lambda: append_summary(summary, markdown))
    if outputs:
        values = {
            "verdict": report.verdict.value,
            "errors": str(report.count(Severity.ERROR)),
            "warnings": str(report.count(Severity.WARNING)),
            "models-checked": str(len(report.models)),
            "report-path": job.outside(folder / "report.md"),
            "json-path": job.outside(folder / "report.json"),
        }
        _try("the outputs", lambda: write_outputs(outputs, values))


def refuse(messages: tuple[str, ...], job: Job) -> None:
    """Say why there is no report; the output `verdict` is then `error`."""
    for message in messages:
        say(command("error", message, {"title": "quantgate"}))
    outputs = job.outputs
    if outputs:
        _try("the outputs", lambda: write_outputs(outputs, {"verdict": "error"}))


def crashed(error: Exception, job: Job) -> None:
    """Tell a fault of our own in one sentence; with debug logging also where it happened."""
    if job.debug:
        with stop_commands(sys.stdout):
            traceback.print_exception(error, file=sys.stdout)
    refuse((f"quantgate failed, please report it: {type(error).__name__}: {error}",), job)


def say(line: str) -> None:
    """Print one line now, in order with what other processes print."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _write_files(report: Report, markdown: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("report.md", markdown), ("report.json", to_json_text(report))):
        path = folder / name
        # A file or link of that name is replaced, never written through.
        path.unlink(missing_ok=True)
        with path.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)


def _try(what: str, action: Callable[[], None]) -> None:
    try:
        action()
    except (OSError, ValueError) as error:
        say(command("warning", f"could not write {what}: {error}", {"title": "quantgate"}))
