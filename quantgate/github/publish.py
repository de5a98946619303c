"""Show a report where a workflow looks: report files, job summary, log, annotations, outputs.

Nothing in here decides: what cannot be written becomes a warning and leaves the exit code alone.
"""

from __future__ import annotations

import shutil
import sys
import traceback
from functools import partial
from typing import TYPE_CHECKING

from quantgate.findings import Severity
from quantgate.github.commands import add_mask, annotate, command, stop_commands
from quantgate.github.outputs import append_summary, write_outputs
from quantgate.github.select import Selection, SelectionError
from quantgate.plan import can_be_handed_on, matrix, plan
from quantgate.report.as_json import to_json_text
from quantgate.report.inert import plain_prose
from quantgate.report.places import configs_in
from quantgate.report.sarif import to_sarif_text
from quantgate.report.text import to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from quantgate.github.job import Job
    from quantgate.github.look import Look
    from quantgate.report.model import Report

# Well below what GitHub takes as a summary, far above what anybody reads.
MARKDOWN_BUDGET = 512 * 1024
FILES = ("report.md", "report.json", "report.sarif")


def publish(report: Report, job: Job, folder: Path, look: Look) -> None:
    """Write everything that a run leaves behind; `folder` takes `report.md` and the others."""
    with stop_commands(sys.stdout):
        sys.stdout.write(to_text(report))
    configs = configs_in(job.workspace, report.models)
    for line in annotate(report, configs=configs):
        say(line)
    for problem in look.problems:
        say(command("warning", plain_prose(problem), {"title": "quantgate"}))
    markdown = look.markdown(report, budget=MARKDOWN_BUDGET, elsewhere="the JSON report")
    contents = (markdown, to_json_text(report), to_sarif_text(report, configs))
    texts = dict(zip(FILES, contents, strict=True))
    _try("the report files", lambda: _write_files(texts, folder))
    for written in filter(None, (folder, job.cache)):
        _try("the owner of the files", partial(job.hand_over, written))
    summary = job.summary
    if summary:
        _try("the job summary", lambda: append_summary(summary, markdown))
    values = {
        "verdict": report.verdict.value,
        "errors": str(report.count(Severity.ERROR)),
        "warnings": str(report.count(Severity.WARNING)),
        "models-checked": str(len(report.models)),
        "report-path": job.outside(folder / "report.md"),
        "json-path": job.outside(folder / "report.json"),
        "sarif-path": job.outside(folder / "report.sarif"),
    }
    set_outputs(job, values)


def clear(folder: Path) -> None:
    """Remove what lies where the report files will be.

    In the checkout, a pull request may have put reports of its own there, which later steps would
    take for ours if this one ended early.

    Raises:
        OSError: Something there cannot be removed.
    """
    for name in FILES:
        _remove(folder / name)


def publish_plan(chosen: Selection, job: Job, may_run: str) -> None:
    """Hand on the models as a matrix of jobs, and the report that each of them is to leave.

    Args:
        chosen: The models.
        job: Takes the outputs.
        may_run: As `strangers.may_run` has it.

    Raises:
        SelectionError: A name would turn into others on its way through a list of lines.
    """
    changing = [m for m in chosen.models if not can_be_handed_on(m)]
    if changing:
        raise SelectionError(f"the name {changing[0]!r} cannot be handed on to another job")
    shares = plan(chosen.models, chosen.settings.plan)
    # As actions/download-artifact unpacks the artifacts of examples/many-models.yml.
    left = (f"reports/quantgate-{n}/report.json" for n in range(1, len(shares) + 1))
    values = {
        "matrix": matrix(shares),
        "jobs": str(len(shares)),
        "reports": "\n".join(left),
        "models": "\n".join(chosen.models),
        "may-run": may_run,
    }
    for note in chosen.notes:
        say(command("notice", plain_prose(note), {"title": "quantgate"}))
    say(f"{len(chosen.models):,} models in {len(shares)} jobs; {chosen.unchanged:,} not touched")
    set_outputs(job, values)


def mask(token: str) -> None:
    """Keep a secret out of the log, whatever prints it."""
    for line in add_mask(token):
        say(line)


def refuse(messages: tuple[str, ...], job: Job) -> None:
    """Say why there is no report; the output `verdict` is then `error`."""
    for message in messages:
        say(command("error", plain_prose(message), {"title": "quantgate"}))
    set_outputs(job, {"verdict": "error"})


def set_outputs(job: Job, values: Mapping[str, str]) -> None:
    """Hand values on to later steps."""
    outputs = job.outputs
    if outputs:
        _try("the outputs", lambda: write_outputs(outputs, values))


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


def _write_files(texts: Mapping[str, str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = folder / name
        _remove(path)
        with path.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)


def _remove(path: Path) -> None:
    """Remove what has this name; a link is not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _try(what: str, action: Callable[[], None]) -> None:
    try:
        action()
    except (OSError, ValueError) as error:
        say(command("warning", f"could not write {what}: {error}", {"title": "quantgate"}))
