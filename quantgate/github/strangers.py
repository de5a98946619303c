"""Where the models of a change may be loaded by a program with a GPU, a network and a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.github.api import ApiError
from quantgate.github.commands import command
from quantgate.github.publish import say

if TYPE_CHECKING:
    from quantgate.github.api import Api
    from quantgate.github.event import Event

HERE = "here"
REVIEWED = "reviewed"
NOWHERE = ""


def may_run(event: Event, api: Api, environment: str) -> str:
    """`here`, `reviewed` (in a job of the environment), or nothing.

    A merge queue holds what a maintainer has put there, so that its models are the repository's.

    Args:
        event: What started the run.
        api: Knows the environments.
        environment: The one whose reviewers let a stranger's model run; empty for none.
    """
    if not event.is_strangers:
        return HERE
    if not environment:
        return NOWHERE
    try:
        if api.has_reviewers(environment):
            return REVIEWED
        why = f"the environment {environment!r} has no required reviewers"
    except ApiError as error:
        why = str(error)
    text = f"models of this pull request are not loaded, because it is from a fork, and {why}"
    say(command("warning", text, {"title": "quantgate"}))
    return NOWHERE
