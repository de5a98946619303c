"""`quantgate fix`: plan, show, and write where that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from quantgate.checkpoint.sources import read_source
from quantgate.exit_code import ExitCode, exit_code
from quantgate.findings import Severity
from quantgate.fixing.diff import file_diff
from quantgate.fixing.plan import plan_edits
from quantgate.fixing.write import WriteError, write_file
from quantgate.report.inert import plain, plain_prose
from quantgate.report.words import place, plural
from quantgate.runner import check_models

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from quantgate.findings import Finding
    from quantgate.fixing.plan import Plan
    from quantgate.targets import Target


def fix_configs(source: str, targets: Sequence[Target], *, write: bool) -> tuple[str, ExitCode]:
    """Show the edits that cure a model, and apply them to its folder where `write` says so.

    Returns:
        What to print, and the exit code: 1 if an error remains, 3 if something is unreadable.

    Raises:
        SourceError: The source cannot be read.
        WriteError: A file cannot be written, or the source is no folder.
    """
    raw = read_source(source)
    if write and not Path(source).is_dir():
        raise WriteError("A header archive is only read; name the model's folder to change it.")
    plan = plan_edits(raw, targets)
    lines = list(_plan_lines(plan))
    if write and plan.edits:
        lines.append("")
        for edit in plan.edits:
            backup = write_file(Path(source), edit.name, edit.before, edit.after)
            lines.append(f"written: {edit.name}; what it was is kept as {backup}.")
    elif plan.edits:
        lines += ["", "Nothing is written; --write applies the change."]
    return "\n".join(lines) + "\n", _code(plan)


def fix_layout(source: str, output: str, targets: Sequence[Target]) -> tuple[str, ExitCode]:
    """Rebuild the weight files of a model folder as declared, into another folder.

    Returns:
        What to print, and the exit code: 1 if the weights cannot be rebuilt, or an error remains.

    Raises:
        SourceError: The source cannot be read.
        WriteError: The output cannot be written, the source is no folder, or numpy is missing.
    """
    if Path(source).is_file():
        raise WriteError("A header archive holds no weights; name the model's folder.")
    _must_be_free(Path(output), Path(source))
    try:
        from quantgate.fixing.layout import LayoutError, rebuild  # noqa: PLC0415  needs numpy
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise WriteError("--layout needs numpy: pip install 'quantgate[fix]'.") from None
    try:
        done = rebuild(source, output, targets[0])
    except LayoutError as error:
        return f"Nothing is written. {plain_prose(str(error))}\n", ExitCode.FINDINGS
    except OSError as error:
        raise WriteError(f"{output} cannot be written: {error.strerror or error}.") from None
    if done is None:
        return f"Nothing to rebuild in {plain(source)}.\n", ExitCode.PASS
    stored, declared = done.repacking.stored, done.repacking.declared
    lines = [
        f"{plain(output)}: the weights of {plural(done.modules, 'module')}, packed as {stored} "
        f"before, are packed as {declared}; every value was read again and compared."
    ]
    report = check_models([output], targets)
    findings = [f for m in report.models for f in m.findings if f.severity is not Severity.INFO]
    lines += _listed("remains:", findings, fixes=True)
    return "\n".join(lines) + "\n", exit_code(report)


def _must_be_free(output: Path, source: Path) -> None:
    try:
        taken = output.is_symlink() or (
            output.exists() and (not output.is_dir() or any(output.iterdir()))
        )
        within = output.resolve().is_relative_to(source.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise WriteError(f"{output} cannot be used: {error}.") from None
    if taken or within:
        raise WriteError("--output names a folder that is empty or new, and outside the model's.")


def _code(plan: Plan) -> ExitCode:
    if any(f.severity is Severity.ERROR and not f.unverified for f in plan.remaining):
        return ExitCode.FINDINGS
    unread = any(f.unverified for f in plan.remaining)
    return ExitCode.UNVERIFIED if unread else ExitCode.PASS


def _plan_lines(plan: Plan) -> Iterator[str]:
    for edit in plan.edits:
        before, after = edit.before.decode(), edit.after.decode()
        yield from file_diff(edit.name, before, after, edit.operations)
    if plan.edits:
        yield from _listed("cured by this change:", plan.cured)
    elif not any(f.severity is not Severity.INFO for f in plan.remaining):
        yield f"Nothing to fix in {plain(plan.source)}."
        return
    else:
        yield f"No change of a config file that would cure {plain(plan.source)} is known."
    if plan.worsened:
        count = plural(len(plan.worsened), "finding")
        title = f"left out, as the change would bring errors that are not there now ({count}):"
        yield from _listed(title, plan.worsened)
    remaining = [f for f in plan.remaining if f.severity is not Severity.INFO]
    yield from _listed("remains:", remaining, fixes=True)


def _listed(title: str, findings: Iterable[Finding], *, fixes: bool = False) -> Iterator[str]:
    found = list(findings)
    if not found:
        return
    yield from ("", title)
    for finding in found:
        times = f" × {finding.count:,}" if finding.count > 1 else ""
        name = f"{finding.severity.value}[{finding.rule}] {finding.name}"
        yield f"  {name}: {plain(place(finding))}{times}"
        if fixes and finding.fix:
            yield f"    fix: {plain_prose(finding.fix)}"
