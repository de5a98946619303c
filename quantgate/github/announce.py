"""The comment of a run: which pull request, what it says, and what is told where it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.github.api import ApiError
from quantgate.github.commands import command
from quantgate.github.comment import Done, Posted, current_pull, post
from quantgate.github.publish import say, set_outputs
from quantgate.github.suggest import suggest
from quantgate.report.markdown import COMMENT_BUDGET
from quantgate.settings import Comment

if TYPE_CHECKING:
    from quantgate.github.api import Api
    from quantgate.github.event import Event
    from quantgate.github.job import Job
    from quantgate.github.look import Look
    from quantgate.report.model import Report
    from quantgate.settings import Settings

_FORK = (
    "the token of this run may not write a comment, as for every pull request from a fork; the "
    "report is in the job summary, and docs/action.md has the second workflow that writes it"
)


def announce(
    report: Report,
    event: Event,
    api: Api,
    settings: Settings,
    job: Job,
    *,
    look: Look,
    blocks: bool,
) -> None:
    """Bring the comment up to date, if there is a pull request; the exit code is not touched."""
    second = event.name == "workflow_run"
    if settings.comment is Comment.NEVER or not (second or event.pull):
        return
    if second and event.conclusion != "success":
        ended = f"The workflow that checked this ended with `{event.conclusion or 'nothing'}`."
        report = replace(report, notes=(*report.notes, ended))
    elsewhere = "the summary of the run that checked it" if second else "the job summary"
    body = look.markdown(report, budget=COMMENT_BUDGET, elsewhere=elsewhere)
    try:
        number = current_pull(event, api) if second else event.pull
    except ApiError as error:
        posted = Posted(Done.REFUSED, why=str(error))
    else:
        posted = Posted(Done.STALE, why="no open pull request ends with the commit of that run")
        if number:
            posted = post(api, number, body, settings.comment, blocks=blocks)
    if posted.why:
        why = f"{_FORK} ({posted.why})" if posted.forbidden and not second else posted.why
        kind = "notice" if posted.done is Done.STALE else "warning"
        say(command(kind, f"no comment was written: {why}", {"title": "quantgate"}))
    set_outputs(job, {"comment": posted.done.value, "comment-url": posted.url})
    if event.pull and posted.done is not Done.REFUSED:
        try:
            suggest(report, api, event.pull, event.head)
        except ApiError as error:
            say(command("warning", f"no change was suggested: {error}", {"title": "quantgate"}))
