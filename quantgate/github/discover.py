"""Find the model folders of a checkout.

A model folder holds a `config.json` and at least one weight file, index or Git LFS pointer by
name; what is inside is for the checks to say. The tree belongs to a pull request, so links are
not followed, and a tree too large to search is an error: a gate that silently stops looking
would pass what it has not seen.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from quantgate.checkpoint.archive import SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

MAX_DEPTH = 32
MAX_FOLDERS = 50_000
MAX_MODELS = 500
# Folders that tools fill and that hold nobody's model.
SKIPPED = frozenset({".git", ".tox", ".venv", "__pycache__", "node_modules", "venv"})

_WEIGHTS = (".safetensors", ".safetensors.index.json")


class DiscoveryError(Exception):
    """The tree cannot be searched completely; the message says why and what to do."""


def is_model(checkout: Path, path: str) -> bool:
    """Whether a path within the checkout is a model folder or header archive, without links."""
    place = checkout / path
    if place.resolve() != checkout.resolve() / path:
        return False
    if not place.is_dir():
        return path.endswith(SUFFIX) and place.is_file()
    try:
        names, _ = _list(checkout, path)
    except DiscoveryError:
        return False
    return _holds_model(names)


def _holds_model(names: set[str]) -> bool:
    return "config.json" in names and any(n.endswith(_WEIGHTS) for n in names)


def models_in(checkout: Path) -> tuple[str, ...]:
    """The model folders of a checkout, at least one.

    Raises:
        DiscoveryError: As `find_models`, or there is none.
    """
    models = find_models(checkout)
    if not models:
        raise DiscoveryError(
            "no model found: no folder of the checkout holds a config.json beside "
            "*.safetensors; name what to check with the input `models`"
        )
    return models


def find_models(
    root: Path,
    *,
    max_depth: int = MAX_DEPTH,
    max_folders: int = MAX_FOLDERS,
    max_models: int = MAX_MODELS,
) -> tuple[str, ...]:
    """Model folders under `root`, relative to it with forward slashes, sorted; `.` is the root.

    Raises:
        DiscoveryError: A limit is exceeded or a folder cannot be read.
    """
    found: list[str] = []
    pending = [("", 0)]
    seen = 0
    while pending:
        folder, depth = pending.pop()
        seen += 1
        if seen > max_folders:
            raise _too_much(f"more than {max_folders:,} folders")
        names, inner = _list(root, folder)
        if _holds_model(names):
            found.append(folder or ".")
        if len(found) > max_models:
            raise _too_much(f"more than {max_models:,} model folders")
        if inner and depth >= max_depth:
            raise _too_much(f"folders nested deeper than {max_depth}")
        pending += ((f"{folder}/{name}" if folder else name, depth + 1) for name in inner)
    return tuple(sorted(found))


def _list(root: Path, folder: str) -> tuple[set[str], list[str]]:
    """Names that are not folders, and the folders to search further."""
    names: set[str] = set()
    inner: list[str] = []
    try:
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    names.add(entry.name)
                elif entry.name not in SKIPPED:
                    inner.append(entry.name)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DiscoveryError(f"cannot read the folder {folder or '.'!r}: {reason}") from error
    return names, inner


def _too_much(what: str) -> DiscoveryError:
    return DiscoveryError(
        f"the checkout holds {what}; name the models to check with the input `models`"
    )
