"""Which files a change touches, from the event and the API: there is no git in the image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quantgate.github.api import MAX_PULL_FILES, ApiError

if TYPE_CHECKING:
    from quantgate.github.api import Api
    from quantgate.github.event import Event


@dataclass(frozen=True, slots=True)
class Changes:
    """The files that a change touches.

    Attributes:
        files: Their paths, old and new ones; None where they are not known.
        why: Why they are not known, for the report; empty where nobody needs to be told.
    """

    files: frozenset[str] | None = None
    why: str = ""

    def touches(self, path: str) -> bool:
        """Whether a file, or one beneath a folder (`.` for all), may have changed.

        What changed above it is a submodule or a link, and all beneath is another then.
        """
        if self.files is None or path in self.files:
            return True
        return any(
            path == "." or f.startswith(f"{path}/") or path.startswith(f"{f}/") for f in self.files
        )


def changes_of(event: Event, api: Api) -> Changes:
    """What the change of this event touches; a failure means that anything may have changed."""
    if not event.has_change:
        return Changes()
    try:
        return _pull(event, api) if event.pull else _between(event, api)
    except ApiError as error:
        return Changes(None, f"Everything was checked, as the changed files are unknown. {error}.")


def _pull(event: Event, api: Api) -> Changes:
    files = api.pull_files(event.pull)
    if files is None:
        return Changes(
            None,
            f"Everything was checked, as the pull request changes more than {MAX_PULL_FILES:,} "
            "files, of which GitHub lists no more.",
        )
    return Changes(frozenset(p for f in files for p in (f.path, f.previous) if p))


def _between(event: Event, api: Api) -> Changes:
    """Compare the trees: GitHub's own comparison of two commits ends after 300 files."""
    before, after = api.tree(event.base), api.tree(event.head)
    if before is None or after is None:
        return Changes(
            None, "Everything was checked, as the repository has more files than GitHub lists."
        )
    paths = before.keys() | after.keys()
    return Changes(frozenset(p for p in paths if before.get(p) != after.get(p)))
