"""The report as Markdown, for a pull request comment or a job summary.

The layout is in `templates/`; this module gives the templates their filters and finds the level
of detail that fits a size. Everything that a template prints must be `Inert`, which only the
filters make: printing anything else is an error, not a leak.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from quantgate.report import inert, words
from quantgate.report.compare import compare_reports
from quantgate.report.inert import Inert
from quantgate.report.view import LEVELS, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2 import Template

    from quantgate.findings import Finding
    from quantgate.report.model import ModelReport, Report
    from quantgate.report.view import View

MARKER = "<!-- quantgate:report -->"
# GitHub: an issue comment holds 65,536 characters (some threads suspect bytes), a job summary
# 1 MiB per step. Both leave room for a line of the caller's.
COMMENT_BUDGET = 60_000
SUMMARY_BUDGET = 1024 * 1024 - 16 * 1024
MINIMUM_BUDGET = 20_000
# No line of a finding, name or model is shorter: what need not be rendered to know it is too long.
_SHORTEST_LINE = 20

_RULE = re.compile(r"QG\d{3}")
_DOCS = re.compile(r"https://github\.com/[A-Za-z0-9._/-]{1,160}")


def _rule(finding: Finding) -> Inert:
    """A link to the rule's page, or the bare id where the finding is not one of ours."""
    if _RULE.fullmatch(finding.rule) and _DOCS.fullmatch(finding.docs):
        return Inert(f"[{finding.rule}]({finding.docs})")
    return inert.code_cell(finding.rule, 20)


def _place_cell(finding: Finding) -> Inert:
    where = inert.code_cell(words.place(finding))
    return Inert(f"{where} ×\u00a0{finding.count:,}") if finding.count > 1 else where


def _model(model: ModelReport) -> Inert:
    name = inert.code_cell(model.source, 120)
    revision = words.short_revision(model.revision)
    return Inert(f"{name} @ {inert.code_cell(revision, 40)}") if revision else name


FILTERS: dict[str, Callable[..., Inert]] = {
    "code": inert.code,
    "code_cell": inert.code_cell,
    "prose": inert.prose,
    "prose_cell": inert.prose_cell,
    "fenced": inert.fenced,
    "rule": _rule,
    "place_cell": _place_cell,
    "model": _model,
    "change": lambda finding, change: Inert((change and change.of(finding)) or ""),
    "icon": lambda value: Inert(words.ICONS[value]),
    "number": lambda count: Inert(f"{int(count):,}"),
    "plural": lambda count, word: Inert(words.plural(int(count), inert.prose(word))),
    # Sentences made of our own words and numbers only.
    "words": inert.prose,
}


SENTENCES = (
    words.comparison_words,
    words.certainty,
    words.consequence,
    words.heading,
    words.outcome_words,
    words.some_targets_words,
    words.stats_words,
    words.tally,
    words.targets_words,
    words.tier,
    words.tiers_words,
    words.verdict_words,
)


def _finalize(value: Any) -> Inert:
    if not isinstance(value, Inert):
        raise TypeError(f"a template prints {type(value).__name__} without a filter")
    return value


def template_folder() -> Path:
    """`templates/` of the source tree, or the copy in an installed package.

    Raises:
        FileNotFoundError: Neither is there.
    """
    package = Path(__file__).parents[1]
    for folder in (package / "templates", package.parent / "templates"):
        if (folder / "report.md.j2").is_file():
            return folder
    raise FileNotFoundError("the templates are missing: quantgate is not installed completely")


@cache
def _template() -> Template:
    # Slow to import, and most runs at a terminal never render Markdown.
    from jinja2 import FileSystemLoader, StrictUndefined  # noqa: PLC0415
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415

    environment = SandboxedEnvironment(
        loader=FileSystemLoader(template_folder()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize,
        autoescape=False,  # Markdown, not HTML; `_finalize` is the guard
    )
    environment.filters.update(FILTERS)
    # Functions only: a module would hand out the modules it imports.
    environment.globals["words"] = SimpleNamespace(**{f.__name__: f for f in SENTENCES})
    return environment.get_template("report.md.j2")


def _tidy(text: str) -> str:
    """At most one empty line in a row, one newline at the end."""
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def to_markdown(
    report: Report,
    *,
    before: Report | None = None,
    budget: int = COMMENT_BUDGET,
    elsewhere: str = "the JSON report",
) -> str:
    """The report as Markdown of at most `budget` bytes of UTF-8, the same bytes every time.

    Args:
        report: What to show.
        before: The report on the base of the change; findings are then marked as new.
        budget: The most bytes, at least `MINIMUM_BUDGET`.
        elsewhere: Where a reader finds what had to be left out.

    Raises:
        ValueError: The budget is too small for a verdict.
    """
    if budget < MINIMUM_BUDGET:
        raise ValueError(f"a budget of {budget} bytes is less than {MINIMUM_BUDGET}")
    comparison = compare_reports(report, before) if before is not None else None
    for level in range(len(LEVELS)):
        shown = view(report, level, comparison)
        if shown.lines * _SHORTEST_LINE > budget:
            continue
        text = _render(shown, elsewhere)
        if len(text.encode()) <= budget:
            return text
    raise AssertionError("the shortest report is longer than MINIMUM_BUDGET")


def _render(shown: View, elsewhere: str) -> str:
    body = _template().render(view=shown, elsewhere=elsewhere)
    return f"{MARKER}\n{_tidy(body)}"
