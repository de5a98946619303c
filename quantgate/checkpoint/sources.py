"""From what the user wrote to a `Checkpoint`: which reader a source belongs to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from quantgate.checkpoint.archive import SUFFIX, read_archive
from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.checkpoint.local import read_folder
from quantgate.checkpoint.raw import RawCheckpoint, SourceError, assemble

if TYPE_CHECKING:
    from collections.abc import Callable

    from quantgate.checkpoint.model import Checkpoint

__all__ = ["SourceError", "is_hub_id", "open_checkpoint", "open_repository", "read_source"]

_HUB = "hf://"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./+-]+)?", re.ASCII)


class _Reader(NamedTuple):
    """A kind of source. The first reader that accepts a source reads it."""

    accepts: Callable[[str], bool]
    read: Callable[..., RawCheckpoint]


def open_checkpoint(
    source: str, *, scalars: bool = False, lfs: Lfs = Lfs.AUTO, urls: bool = False
) -> Checkpoint:
    """Read and parse a model folder, a header archive or a repository on the Hub.

    Args:
        source: What the user wrote.
        scalars: Whether to read the values of lone scales too.
        lfs: Whether to look up the Git LFS pointers of a folder.
        urls: Whether an address (`https://…`, `s3://…`) may be read: only one that a user typed.

    Raises:
        SourceError: There is no model to read; the message is one sentence for the user.
    """
    return assemble(read_source(source, scalars=scalars, lfs=lfs, urls=urls))


def open_repository(repository: str) -> Checkpoint:
    """Read and parse a Hub repository, and never a file of this machine that has its name.

    Raises:
        SourceError: It is no id of a repository, or cannot be read.
    """
    if _HUB_ID.fullmatch(repository) is None:
        raise SourceError(f"{repository!r} is no id of a Hugging Face repository.")
    return assemble(_read_hub(repository))


def read_source(
    source: str, *, scalars: bool = False, lfs: Lfs = Lfs.AUTO, urls: bool = False
) -> RawCheckpoint:
    """Read a source without parsing it, as for writing an archive; arguments as above.

    Raises:
        SourceError: There is no model to read; the message is one sentence for the user.
    """
    if _URL.match(source) and not source.startswith(_HUB):
        return _read_url(source, scalars=scalars, allowed=urls)
    try:
        for reader in _READERS:
            if reader.accepts(source):
                raw = reader.read(source, scalars=scalars)
                return _fetched(raw, lfs, scalars=scalars)
        found = _exists(source)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"{source!r} cannot be read: {reason}.") from None
    if found:
        raise SourceError(f"{source!r} is neither a model folder nor a header archive (*{SUFFIX}).")
    raise SourceError(f"There is no {source!r}.")


def _read_url(source: str, *, scalars: bool, allowed: bool) -> RawCheckpoint:
    if not allowed:
        raise SourceError(
            "An address is only read by `quantgate check` and `quantgate pack`: write a header "
            "archive with the latter, and use that."
        )
    from quantgate.checkpoint.remote import read_url  # noqa: PLC0415  as below

    return read_url(source, scalars=scalars)


def _fetched(raw: RawCheckpoint, mode: Lfs, *, scalars: bool) -> RawCheckpoint:
    """With the files that the Git LFS pointers in a folder stand for."""
    if not raw.pointers or mode is Lfs.NEVER:
        return raw
    # As below: the client takes long to import.
    from quantgate.checkpoint.lfs import fetch_pointers  # noqa: PLC0415

    return fetch_pointers(raw, mode=mode, scalars=scalars)


def _exists(source: str) -> bool:
    return source != "" and Path(source).exists()


def _is_folder(source: str) -> bool:
    return source != "" and Path(source).is_dir()


def _is_archive(source: str) -> bool:
    return source.endswith(SUFFIX) and Path(source).is_file()


def is_hub_id(source: str) -> bool:
    """Whether a source is read from the Hub: nothing here has its name, or it says so."""
    if source.startswith(_HUB):
        return True
    return _HUB_ID.fullmatch(source) is not None and not _exists(source)


def _read_hub(source: str, *, scalars: bool = False) -> RawCheckpoint:
    # The client of the Hub takes longer to import than most models to check.
    from quantgate.checkpoint.hub import read_hub  # noqa: PLC0415

    return read_hub(source, scalars=scalars)


_READERS = (
    _Reader(_is_folder, read_folder),
    _Reader(_is_archive, read_archive),
    _Reader(is_hub_id, _read_hub),
)
