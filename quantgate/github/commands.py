"""Workflow commands: annotations, masks, and untrusted text kept from being read as commands.

The format is that of `actions/toolkit`, packages/core/src/command.ts.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quantgate.findings import Severity, Verdict
from quantgate.report import words
from quantgate.report.inert import command_data, command_property, plain, plain_prose, visible
from quantgate.report.places import Place, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO

    from quantgate.findings import Finding
    from quantgate.report.model import ModelReport, Report
    from quantgate.report.places import Config

# GitHub shows 10 annotations per step of each of these kinds and drops the rest in silence.
ANNOTATIONS = 10
_KINDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def command(name: str, message: str, properties: Mapping[str, str] | None = None) -> str:
    """One workflow command as a line without its newline; `name` is ours, the rest is escaped."""
    parts = [f"{k}={command_property(v)}" for k, v in (properties or {}).items() if v]
    head = f"{name} {','.join(parts)}" if parts else name
    return f"::{head}::{command_data(message)}"


def _message(finding: Finding) -> str:
    times = f" × {finding.count:,}" if finding.count > 1 else ""
    lines = [f"{plain(words.place(finding))}{times}: {plain_prose(finding.message)}"]
    if finding.expected or finding.found:
        expected = plain(finding.expected) or "nothing"
        lines.append(f"Expected {expected}, found {plain(finding.found) or 'nothing'}.")
    if finding.fix:
        lines.append(f"Fix: {plain_prose(finding.fix)}")
    if finding.docs:
        lines.append(plain(finding.docs))
    return "\n".join(lines)


def _where(place: Place | None) -> dict[str, str]:
    # A path must be exact; one that would act on the log is left out.
    if place is None or visible(place.file) != place.file:
        return {}
    return {"file": place.file, "line": str(place.line) if place.line else ""}


def _annotation(model: ModelReport, finding: Finding, configs: Mapping[str, Config]) -> str:
    where = _where(place_of(finding, model, configs))
    rule = f"{plain(finding.rule, 20)} {plain(finding.name, 60)}"
    properties = {**where, "title": f"{rule} in {plain(model.source, 100)}"}
    return command(_KINDS[finding.severity], _message(finding), properties)


def _unread(model: ModelReport, configs: Mapping[str, Config]) -> str:
    config = configs.get(model.source)
    where = _where(Place(config.path) if config else None)
    properties = {**where, "title": f"could not verify {plain(model.source, 100)}"}
    return command("error", plain_prose(words.consequence(model)), properties)


def _limited(kind: Severity, lines: Sequence[str], elsewhere: str) -> list[str]:
    if len(lines) <= ANNOTATIONS:
        return list(lines)
    rest = len(lines) - ANNOTATIONS + 1
    text = f"{words.plural(rest, f'more {_KINDS[kind]}')} in {elsewhere}"
    return [*lines[: ANNOTATIONS - 1], command(_KINDS[kind], text, {"title": "quantgate"})]


def annotate(
    report: Report,
    *,
    configs: Mapping[str, Config] | None = None,
    elsewhere: str = "the job summary",
) -> list[str]:
    """Annotations for a run, worst first; the last one of a full kind says how many are missing.

    Args:
        report: What was found.
        configs: The configs in the checkout, as `configs_in` finds them; an annotation is put on
            the line of the key that its finding is about.
        elsewhere: Where the others can be read.
    """
    configs = configs or {}
    found: dict[Severity, list[str]] = {s: [] for s in Severity}
    for model in report.models:
        errors = model.count(Severity.ERROR)
        if model.verdict is Verdict.UNVERIFIED and not errors:
            found[Severity.ERROR].append(_unread(model, configs))
        for finding in model.findings:
            found[finding.severity].append(_annotation(model, finding, configs))
    return [line for kind in Severity for line in _limited(kind, found[kind], elsewhere)]


def add_mask(secret: str) -> list[str]:
    """Commands that hide a secret in the log, one per line of it, as the runner masks by line."""
    return [command("add-mask", line) for line in secret.splitlines() if line.strip()]


@contextmanager
def stop_commands(stream: TextIO, token: str | None = None) -> Iterator[None]:
    """Let untrusted text through to a log: within the block, nothing on the stream is a command.

    Args:
        stream: Where both the text and the commands go.
        token: What ends the block; unguessable unless given (for tests).
    """
    token = token or secrets.token_hex(16)
    stream.write(f"::stop-commands::{token}\n")
    try:
        yield
    finally:
        # The text may have ended in the middle of a line.
        stream.write(f"\n::{token}::\n")
        stream.flush()
