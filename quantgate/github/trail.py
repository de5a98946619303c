"""The places that a path depends on: a change of any of them may change what it leads to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINKS = 40  # as the Linux kernel follows


def trail(path: Path) -> Iterator[Path]:
    """The absolute path as it is written, each link on the way, and the place where it ends.

    What does not exist ends where it is written.

    Raises:
        OSError: A place cannot be looked at.
    """
    yield Path(os.path.normpath(path))
    here, todo, links = Path(path.anchor), [*reversed(path.parts[1:])], 0
    while todo and links <= MAX_LINKS:
        part = todo.pop()
        if part == "..":
            here = here.parent
            continue
        here /= part
        if here.is_symlink():
            yield here
            links += 1
            target = here.readlink()
            todo += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            here = Path(target.anchor) if target.is_absolute() else here.parent
    yield here
