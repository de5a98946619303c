"""The one comment on a pull request: found again, changed in place, turned green when fixed."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from quantgate.github.api import ApiError
from quantgate.report.markdown import MARKER
from quantgate.settings import Comment as When

if TYPE_CHECKING:
    from quantgate.github.api import Api, Comment
    from quantgate.github.event import Event


# How often a comment is looked for and written, and the seconds between.
TRIES = 3
PAUSE = 2.0


class Done(StrEnum):
    """What became of the comment."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    NONE = "none"  # nothing to say, and nothing was said before
    REFUSED = "refused"  # the token may not write
    STALE = "stale"  # the pull request has moved on


@dataclass(frozen=True, slots=True)
class Posted:
    """What became of the comment, where it is, why it is not, and whether that is forbidden."""

    done: Done
    url: str = ""
    why: str = ""
    forbidden: bool = False


_NOTHING = Posted(Done.NONE)


def marker(key: str = "") -> str:
    """What a comment begins with; gates with different keys keep a comment each."""
    return f"{MARKER.removesuffix(' -->')} {key} -->" if key else MARKER


def post(api: Api, number: int, body: str, when: When, *, blocks: bool, key: str = "") -> Posted:
    """Bring the comment of a pull request up to date.

    Args:
        api: The repository.
        number: The pull request.
        body: The comment, which begins with the marker.
        when: `on-failure` writes the first comment only if the gate is closed.
        blocks: Whether the gate is closed.
        key: Which of several comments.
    """
    if when is When.NEVER:
        return Posted(Done.NONE)
    if not body.startswith(MARKER):
        raise ValueError("a comment without its marker would never be found again")
    body = marker(key) + body.removeprefix(MARKER)
    first = when is When.ALWAYS or blocks
    try:
        for _ in range(TRIES - 1):
            try:
                return _brought(api, number, body, marker(key), first=first)
            except ApiError as error:
                # Without a good answer it may have been written, and a comment may be removed
                # between the look and the change: look again.
                if error.status not in {0, 404} and error.status < 500:
                    raise
            time.sleep(PAUSE)
        return _brought(api, number, body, marker(key), first=first)
    except ApiError as error:
        # Of a locked conversation GitHub says so itself, and no permission helps.
        forbidden = error.status in {401, 403, 404} and "locked" not in str(error)
        return Posted(Done.REFUSED, why=str(error), forbidden=forbidden)


def _brought(api: Api, number: int, body: str, start: str, *, first: bool) -> Posted:
    mine = _mine(api, number, start)
    if mine is None:
        return Posted(Done.CREATED, api.create_comment(number, body).url) if first else _NOTHING
    if _same(mine.body, body):
        return Posted(Done.UNCHANGED, mine.url)
    return Posted(Done.UPDATED, api.update_comment(number, mine, body).url)


def _mine(api: Api, number: int, start: str) -> Comment | None:
    """The first comment that is ours: anybody can write the marker, and only we are the author."""
    marked = [c for c in api.comments(number) if c.body.startswith(start)]
    if not marked:
        return None
    author = api.viewer()
    return next((c for c in marked if c.author == author), None)


def _same(before: str, after: str) -> bool:
    """Whether GitHub, which changes line ends and strips, would show the same text."""
    return before.replace("\r\n", "\n").strip() == after.strip()


def current_pull(event: Event, api: Api) -> int:
    """The pull request of this run, or of the first workflow on `workflow_run`; 0 if it moved on.

    A run of a commit that is no longer the last one must not speak for what came after it: one that
    was cancelled by the next push still has a last job. On `workflow_run` GitHub names the pull
    request only within one repository, so it is found by branch.

    Raises:
        ApiError: GitHub cannot be asked, on `workflow_run`; else the event's number is good enough.
    """
    if event.pull:
        moved_on = False
        with suppress(ApiError):
            moved_on = bool(event.head) and api.head(event.pull) not in {event.head, ""}
        return 0 if moved_on else event.pull
    if not (event.head and event.head_branch):
        return 0
    pulls = api.open_pulls(event.head_branch)
    return next((p.number for p in pulls if p.head == event.head), 0)
