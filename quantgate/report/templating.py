"""The templates of the Markdown report: what they may print, and those that users bring.

Everything that a template prints must be `Inert`, which only the filters make: printing anything
else is an error, not a leak. A user's template gets the same filters and cannot undo them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from quantgate.report import inert, words
from quantgate.report.compare import Change
from quantgate.report.inert import Inert

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jinja2 import Environment, Template

    from quantgate.findings import Finding
    from quantgate.report.compare import ModelChange
    from quantgate.report.model import ModelReport
    from quantgate.report.view import View

TITLE, BODY, REFUSED = "_title.md.j2", "report.md.j2", "_refused.md.j2"
MAX_TEMPLATE = 64 * 1024


class TemplateError(ValueError):
    """A user's template cannot be used; the message is safe to print."""


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
    at = words.at(model.source)
    return Inert(f"{name} {at} {inert.code_cell(revision, 40)}") if revision else name


def _change(finding: Finding, change: ModelChange | None) -> Inert:
    """`new` or `existing`, empty where that is not known."""
    known = change.of(finding) if change else None
    return Inert(f"**{known}**" if known is Change.NEW else known or "")


FILTERS: dict[str, Callable[..., Inert]] = {
    "code": inert.code,
    "code_cell": inert.code_cell,
    "prose": inert.prose,
    "prose_cell": inert.prose_cell,
    "fenced": inert.fenced,
    "rule": _rule,
    "place_cell": _place_cell,
    "model": _model,
    "change": _change,
    "icon": lambda value: Inert(words.ICONS[value]),
    "finding_icon": lambda finding: Inert(words.icon_of(finding)),
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
        str(value)  # of an undefined name, this raises and says which
        raise TypeError(f"it prints {type(value).__name__} without a filter")
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
def environment() -> Environment:
    """The sandbox that all templates run in."""
    # Slow to import, and most runs at a terminal never render Markdown.
    from jinja2 import FileSystemLoader, StrictUndefined  # noqa: PLC0415
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415

    found = SandboxedEnvironment(
        loader=FileSystemLoader(template_folder()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finalize,
        autoescape=False,  # Markdown, not HTML; `_finalize` is the guard
    )
    found.filters.update(FILTERS)
    # Functions only: a module would hand out the modules it imports.
    found.globals["words"] = SimpleNamespace(**{f.__name__: f for f in SENTENCES})
    return found


@cache
def _compiled(custom: str) -> Template:
    """Our template of the body, or a user's.

    Raises:
        TemplateError: It is too long, not a template, or pipes what was printed through a filter,
            which could undo what made it inert.
    """
    from jinja2 import TemplateSyntaxError, nodes  # noqa: PLC0415

    if not custom:
        return environment().get_template(BODY)
    if len(custom) > MAX_TEMPLATE:
        raise TemplateError(f"the template is longer than {MAX_TEMPLATE:,} characters")
    try:
        tree = environment().parse(custom)
        filtered = next(iter(tree.find_all(nodes.FilterBlock)), None)
        if filtered is not None:
            raise TemplateError(
                f"the template, line {filtered.lineno}: {{% filter %}} is not allowed"
            )
        return environment().from_string(custom)
    except TemplateSyntaxError as error:
        place = f"line {error.lineno}: {inert.plain(error.message or '', 200)}"
        raise TemplateError(f"the template, {place}") from None


def render_refusal(problems: Sequence[str]) -> str:
    """Why there is no report."""
    return environment().get_template(REFUSED).render({"problems": problems})


def render(shown: View, elsewhere: str, custom: str = "") -> str:
    """The verdict line and the body.

    A user's template gives the body only, so that it can neither change nor forget the verdict.

    Raises:
        TemplateError: The user's template prints something as it is, uses what is not there, or
            fails in another way.
    """
    context = {"view": shown, "elsewhere": elsewhere, "report": shown.report}
    title = environment().get_template(TITLE).render(context)
    body = _compiled(custom)
    try:
        return title + body.render(context)
    except Exception as error:
        if not custom:
            raise
        # Whatever the template did: it is the user's code, and the user needs to know.
        what = f"{type(error).__name__}: {inert.plain(str(error), 200)}"
        raise TemplateError(f"the template cannot be used: {what}") from None
