"""The comment of a run: which pull request, what it says, and what is told where it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.github.api import Api, ApiError
from quantgate.github.commands import command
from quantgate.github.comment import Done, Posted, current_pull, post
from quantgate.github.event import Event
from quantgate.github.publish import say, set_outputs
from quantgate.github.suggest import suggest
from quantgate.report.markdown import COMMENT_BUDGET, refusal
from quantgate.settings import Comment, Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quantgate.github.job import Job
    from quantgate.github.look import Look
    from quantgate.report.model import Report

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
    posted = _post(body, event, api, settings, job, blocks=blocks)
    if event.pull and posted.done not in {Done.REFUSED, Done.STALE}:
        try:
            suggest(report, api, event.pull, event.head)
        except ApiError as error:
            say(command("warning", f"no change was suggested: {error}", {"title": "quantgate"}))


def announce_refusal(problems: Sequence[str], environ: Mapping[str, str], job: Job) -> None:
    """Tell in a comment that is there that the gate could not run: what it says is of before.

    None is written anew. What the inputs say is taken as far as it can be read.
    """
    settings = Settings.usable(environ)
    if not settings.comment_key and environ.get("INPUT_COMMENT-KEY", "").strip():
        return  # nobody knows which comment it is
    try:
        event = Event.from_environment(environ)
    except SettingsError:
        return
    if settings.comment is Comment.NEVER or event.name == "pull_request_target":
        return
    if event.pull or event.name == "workflow_run":
        settings = replace(settings, comment=Comment.ON_FAILURE)
        api = Api(event, settings.github_token)
        _post(refusal(problems), event, api, settings, job, blocks=False)


def _post(
    body: str, event: Event, api: Api, settings: Settings, job: Job, *, blocks: bool
) -> Posted:
    second = event.name == "workflow_run"
    try:
        number = current_pull(event, api)
    except ApiError as error:
        posted = Posted(Done.REFUSED, why=str(error))
    else:
        posted = Posted(Done.STALE, why="no open pull request ends with the commit of that run")
        if number:
            when, key = settings.comment, settings.comment_key
            posted = post(api, number, body, when, blocks=blocks, key=key)
    if posted.why:
        why = f"{_FORK} ({posted.why})" if posted.forbidden and not second else posted.why
        kind = "notice" if posted.done is Done.STALE else "warning"
        say(command(kind, f"no comment was written: {why}", {"title": "quantgate"}))
    set_outputs(job, {"comment": posted.done.value, "comment-url": posted.url})
    return posted
