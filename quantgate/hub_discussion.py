"""The report as a comment on a Hub pull request or discussion, written once and kept up to date."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quantgate.report.inert import plain_prose
from quantgate.report.markdown import MARKER

if TYPE_CHECKING:
    from huggingface_hub import DiscussionComment, HfApi

_PLACE = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>[1-9]\d{0,8})", re.ASCII)


class DiscussionError(Exception):
    """The Hub did not take the comment; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Discussion:
    """A discussion of a model repository; a pull request is one, too."""

    repository: str
    number: int

    @classmethod
    def parse(cls, text: str) -> Discussion:
        """Read `org/model#3`.

        Raises:
            ValueError: It is something else.
        """
        match = _PLACE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a discussion such as org/model#3")
        return cls(match["repository"], int(match["number"]))

    def __str__(self) -> str:
        return f"{self.repository}#{self.number}"


def comment_on(
    discussion: Discussion, body: str, *, create: bool = True, api: HfApi | None = None
) -> str:
    """Write the comment, or change the one that is there; what was done, in one word.

    Args:
        discussion: Where.
        body: The comment, which begins with the marker.
        create: Whether to write a first comment; one that is there is changed in any case.
        api: The client, with its endpoint and token; that of the environment by default.

    Raises:
        DiscussionError: The Hub refuses, or cannot be reached.
    """
    from huggingface_hub import HfApi  # noqa: PLC0415  slow to import
    from huggingface_hub.errors import HTTPError  # noqa: PLC0415

    if not body.startswith(MARKER):
        raise ValueError("a comment without its marker would never be found again")
    api = api or HfApi()
    where, number = discussion.repository, discussion.number
    try:
        mine = _mine(api, discussion)
        if mine is None:
            if not create:
                return "none"
            api.comment_discussion(where, number, body)
            return "created"
        if mine.content.strip() == body.strip():
            return "unchanged"
        api.edit_discussion_comment(where, number, mine.id, body)
    except (HTTPError, OSError, LookupError, ValueError) as error:  # the last two: an odd answer
        reason = plain_prose(str(error) or type(error).__name__, 300)
        text = f"The Hub did not take the comment on {discussion}: {reason}"
        raise DiscussionError(text) from None
    return "updated"


def _mine(api: HfApi, discussion: Discussion) -> DiscussionComment | None:
    """The first comment that is ours: anybody can write the marker."""
    from huggingface_hub import DiscussionComment  # noqa: PLC0415

    details = api.get_discussion_details(discussion.repository, discussion.number)
    marked = [
        event
        for event in details.events
        if isinstance(event, DiscussionComment)
        and not event.hidden
        and event.content.startswith(MARKER)
    ]
    if not marked:
        return None
    me = api.whoami()["name"]
    return next((c for c in marked if c.author == me), None)
