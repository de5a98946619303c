"""How a run shows its report: compared with the base's, in a template of the repository's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from quantgate.github.api import ApiError
from quantgate.github.before import report_before
from quantgate.github.select import read_checkout
from quantgate.report.from_json import MAX_BYTES, ReportError, load_report
from quantgate.report.markdown import to_markdown
from quantgate.report.model import Report
from quantgate.report.templating import MAX_TEMPLATE, TemplateError
from quantgate.settings import Comment, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from quantgate.github.api import Api
    from quantgate.github.event import Event
    from quantgate.settings import Settings


@dataclass(frozen=True, slots=True)
class Look:
    """What a report is shown with.

    Attributes:
        before: The report on the base, None where there is none.
        template: The text of a template, empty for our own.
        problems: Sentences on what could not be used; the report is shown without it.
    """

    before: Report | None = None
    template: str = ""
    problems: tuple[str, ...] = ()

    def markdown(self, report: Report, *, budget: int, elsewhere: str) -> str:
        """The report; where the template fails, in our own, as a gate must not fall silent."""
        show = partial(to_markdown, report, before=self.before, budget=budget, elsewhere=elsewhere)
        try:
            return show(template=self.template)
        except TemplateError:
            return show()


def look_of(settings: Settings, event: Event, api: Api, workspace: Path, report: Report) -> Look:
    """Read what the inputs `base-report` and `template` name.

    Without a `base-report`, what the last runs on the base branch have left is looked for.

    On a pull request both files are those of the base branch: what is proposed decides neither how
    it is told nor what was there before.
    """
    problems = []
    before, template = None, ""
    if settings.base_report:
        try:
            text = _settled(settings.base_report, event, api, workspace, MAX_BYTES)
            before = load_report(text)
        except (ApiError, ReportError, SettingsError) as error:
            problems.append(f"{settings.base_report!r} is no report of the base: {error}")
    elif event.pull and settings.comment is not Comment.NEVER:
        before = report_before(api, event.base_ref, report)
    if settings.template:
        try:
            template = _settled(settings.template, event, api, workspace, MAX_TEMPLATE)
            to_markdown(Report((), ()), template=template)
        except (ApiError, TemplateError, SettingsError) as error:
            problems.append(f"{settings.template!r} is not used: {error}")
            template = ""
    return Look(before, template, tuple(problems))


def _settled(path: str, event: Event, api: Api, workspace: Path, limit: int) -> str:
    """The text of a file that went through a review.

    Raises:
        ApiError: The base branch cannot be asked for it.
        SettingsError: It is not there, or cannot be read.
    """
    if event.name == "workflow_run":
        raise SettingsError("what lies in the workspace was downloaded from a stranger's run")
    if event.proposes:
        text = api.text(path, event.base, limit)
    else:
        text = read_checkout(workspace, path, limit)
    if not text:
        raise SettingsError("there is no such file, or nothing in it")
    return text
