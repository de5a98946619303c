"""The report as Markdown, for a pull request comment or a job summary.

The layout is in `templates/`, and `templating.py` renders it; this module finds the level of
detail that fits a size.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from quantgate.report.compare import compare_reports
from quantgate.report.templating import TemplateError, render, render_refusal
from quantgate.report.view import LEVELS, view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quantgate.report.model import Report

MARKER = "<!-- quantgate:report -->"
# GitHub: an issue comment holds 65,536 characters (some threads suspect bytes). There is room left
# for a line of the caller's.
COMMENT_BUDGET = 60_000
MINIMUM_BUDGET = 20_000
MAX_PROBLEMS = 20
# No line of a finding, name or model is shorter: what need not be rendered to know it is too long.
_SHORTEST_LINE = 20


def _tidy(text: str) -> str:
    """At most one empty line in a row, one newline at the end."""
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def to_markdown(
    report: Report,
    *,
    before: Report | None = None,
    budget: int = COMMENT_BUDGET,
    elsewhere: str = "the JSON report",
    template: str = "",
) -> str:
    """The report as Markdown of at most `budget` bytes of UTF-8, the same bytes every time.

    Args:
        report: What to show.
        before: The report on the base of the change; findings are then marked as new.
        budget: The most bytes, at least `MINIMUM_BUDGET`.
        elsewhere: Where a reader finds what had to be left out.
        template: A Jinja template for what follows the verdict; empty for our own.

    Raises:
        ValueError: The budget is too small for a verdict.
        TemplateError: The template cannot be used, or not within the budget.
    """
    if budget < MINIMUM_BUDGET:
        raise ValueError(f"a budget of {budget} bytes is less than {MINIMUM_BUDGET}")
    comparison = compare_reports(report, before) if before is not None else None
    for level in range(len(LEVELS)):
        shown = view(report, level, comparison)
        if shown.lines * _SHORTEST_LINE > budget:
            continue
        text = f"{MARKER}\n{_tidy(render(shown, elsewhere, template))}"
        if len(text.encode()) <= budget:
            return text
    if template:
        raise TemplateError(f"the template gives more than {budget:,} bytes at any detail")
    raise AssertionError("the shortest report is longer than MINIMUM_BUDGET")


def refusal(problems: Sequence[str]) -> str:
    """What a comment says where there is no report, because the gate could not run."""
    return f"{MARKER}\n{_tidy(render_refusal(problems[:MAX_PROBLEMS]))}"
