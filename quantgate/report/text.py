"""The report as plain text for a terminal: the verdict first, one fact per line, easy to grep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Severity, Verdict
from quantgate.report import words
from quantgate.report.inert import plain, plain_prose
from quantgate.report.view import view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from quantgate.findings import Finding
    from quantgate.report.model import ModelReport, Report

    Paint = Callable[[str, str], str]

COLOURS: Mapping[str, str] = {
    Verdict.FAIL: "red",
    Verdict.UNVERIFIED: "magenta",
    Verdict.WARN: "yellow",
    Verdict.PASS: "green",
    Severity.ERROR: "red",
    Severity.WARNING: "yellow",
    Severity.INFO: "blue",
}


def wants_colour(environ: Mapping[str, str], *, is_terminal: bool) -> bool:
    """Whether to colour, by https://no-color.org: a terminal, and NO_COLOR unset or empty."""
    return is_terminal and not environ.get("NO_COLOR")


def _painter(*, colour: bool) -> Paint:
    if not colour:
        return lambda text, _: text
    from click import style  # noqa: PLC0415  only a coloured report needs it

    return lambda text, kind: style(text, fg=COLOURS[kind], bold=True)


def _name(model: ModelReport) -> str:
    revision = words.short_revision(model.revision)
    at = words.at(model.source)
    return plain(model.source) + (f" {at} {plain(revision, 40)}" if revision else "")


def _finding(finding: Finding, paint: Paint) -> Iterator[str]:
    times = f" × {finding.count:,}" if finding.count > 1 else ""
    level = paint(finding.severity.value, finding.severity)
    place = plain(words.place(finding))
    yield f"{level}[{plain(finding.rule, 20)}] {plain(finding.name, 60)}: {place}{times}"
    yield f"  {plain_prose(finding.message)}"
    if words.certainty(finding):
        yield "  confidence: likely, as a fact about the model had to be inferred"
    if finding.count > 1 and finding.examples:
        yield f"  examples: {', '.join(map(plain, finding.examples))}"
    if finding.expected:
        yield f"  expected: {plain_prose(finding.expected)}"
    if finding.found:
        yield f"  found:    {plain_prose(finding.found)}"
    if finding.targets:
        yield f"  holds for: {plain_prose(words.some_targets_words(finding.targets))}"
    if finding.fix:
        yield f"  fix:      {plain_prose(finding.fix)}"
    if finding.docs:
        yield f"  docs:     {plain(finding.docs)}"


def _model(model: ModelReport, diff: list[str], paint: Paint) -> Iterator[str]:
    found = words.tally_all(model.findings)
    verdict = paint(model.verdict.value.upper(), model.verdict)
    yield f"{verdict} {_name(model)}{f': {found}' if found else ''}"
    yield f"  {plain_prose(words.consequence(model))}"
    for tier in model.tiers:
        said = f". {plain_prose(tier.summary)}" if tier.summary else ""
        yield f"  {words.tier(tier)}{said}"
    for finding in sorted(model.findings, key=lambda f: f.severity.rank):
        yield ""
        yield from _finding(finding, paint)
    if diff:
        yield ""
        yield "suggested change to config.json:"
        yield from (f"  {plain(line)}" for line in diff)
    if model.stats.files or model.stats.bytes_read:
        yield ""
        yield f"  {words.stats_words(model)}."


def to_text(report: Report, *, colour: bool = False) -> str:
    """The report for a terminal; the same text every time, coloured only where asked.

    The first line is the verdict on everything, then one block per model, worst first, each
    beginning with `PASS`, `WARN`, `FAIL` or `UNVERIFIED`. A finding begins with
    `error[QG401] name: place × count`.
    """
    paint = _painter(colour=colour)
    shown = view(report)
    in_full = {id(m.model): m.diff for m in shown.models}
    verdict = paint(report.verdict.value.upper(), report.verdict)
    targets = plain_prose(words.targets_words(report.targets))
    lines = [f"{verdict} quantgate: {words.verdict_words(report)}; checked for {targets}"]
    for item in shown.models:
        lines += ["", *_model(item.model, in_full[id(item.model)], paint)]
    for model in shown.passing:
        if id(model) not in in_full:
            lines += ["", *_model(model, [], paint)]
    if report.notes:
        lines += ["", *(f"note: {plain_prose(note)}" for note in report.notes)]
    return "\n".join(lines) + "\n"
