"""A model folder on disk. Only regular files inside it are opened, and of weights only headers."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from quantgate.checkpoint.card import CARD_NAME, MAX_CARD, front_matter
from quantgate.checkpoint.header import MAX_HEADER, read_header
from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.pointer import MAX_POINTER, Pointer, parse_pointer
from quantgate.checkpoint.raw import (
    CONFIG_NAMES,
    MAX_CONFIG,
    MAX_HEADERS,
    MAX_INDEX,
    WEIGHT_SUFFIX,
    RawCheckpoint,
    RawDocument,
    RawFile,
    SourceError,
    UnreadError,
    choose_index,
)
from quantgate.checkpoint.scalars import read_scalars

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Where the system knows them: a FIFO must not block the open, a link that replaced the file after
# it was looked at must not be followed.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


def read_folder(folder: str | Path, *, scalars: bool = False) -> RawCheckpoint:
    """Read the configs, the index and the headers of a model folder, not of its sub-folders.

    Args:
        folder: Where it is.
        scalars: Whether to read the values of lone scales too.

    Raises:
        SourceError: The folder cannot be listed, or has neither config.json nor weight files.
    """
    root = Path(folder)
    try:
        entries = {_text(p.name): p for p in root.iterdir() if not p.name.startswith(".")}
        roots = _allowed_roots(root)
    except (OSError, RuntimeError) as error:
        raise SourceError(f"The folder {str(folder)!r} cannot be read: {_reason(error)}.") from None
    index_name = choose_index(entries)
    weight_names = sorted(name for name in entries if name.endswith(WEIGHT_SUFFIX))
    if "config.json" not in entries and not weight_names:
        raise SourceError(
            f"The folder {str(folder)!r} is no model: it has neither config.json nor "
            f"*{WEIGHT_SUFFIX} files."
        )
    pointers: dict[str, Pointer] = {}
    configs = tuple(
        _read_document(name, entries[name], roots, MAX_CONFIG, pointers)
        for name in sorted(CONFIG_NAMES & entries.keys())
    )
    card = _read_card(entries[CARD_NAME], roots) if CARD_NAME in entries else b""
    if card:
        configs = (*configs, RawDocument(CARD_NAME, card))
    index = index_name and _read_document(
        index_name, entries[index_name], roots, MAX_INDEX, pointers
    )
    files: list[RawFile] = []
    budget = MAX_HEADERS
    for name in weight_names:
        file = _read_weights(name, entries[name], roots, min(budget, MAX_HEADER), pointers)
        budget -= _length(file.header)
        files.append(file)
    found = read_scalars(files, partial(_read_part, entries, roots)) if scalars else None
    others = entries.keys() - CONFIG_NAMES - set(weight_names) - {index_name}
    return RawCheckpoint(
        source=str(folder),
        configs=configs,
        files=tuple(files),
        index=index or None,
        other_files=tuple(sorted(n for n in others if not _is_folder(entries[n]))),
        bytes_read=_bytes_read([*configs, *([index] if index else [])], files)
        + (found.bytes_read if found else 0),
        scalars=found and found.values,
        pointers=pointers,
    )


@dataclass(frozen=True, slots=True)
class Located:
    """A file of a model folder.

    Attributes:
        path: Where it really lies, behind all links.
        size: Its bytes; of a pointer those of the file that is meant.
        pointer: The Git LFS pointer that it is, if it is one.
    """

    path: Path
    size: int
    pointer: Pointer | None


def locate(folder: str | Path, names: Iterable[str]) -> dict[str, Located | Defect]:
    """Where files of a folder really lie, for whoever reads them whole.

    Args:
        folder: As of `read_folder`.
        names: As that gave them; a name that is not there is a defect.

    Raises:
        OSError: The folder cannot be listed.
    """
    root = Path(folder)
    entries = {_text(p.name): p for p in root.iterdir()}
    roots = _allowed_roots(root)
    return {name: _locate(entries.get(name, root / name), roots) for name in names}


def _locate(path: Path, roots: Sequence[Path]) -> Located | Defect:
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:
        return Defect(DefectKind.UNREADABLE, f"cannot be read: {_reason(error)}")
    stream = _open(real, roots)
    if isinstance(stream, Defect):
        return stream
    try:
        with stream:
            size = os.fstat(stream.fileno()).st_size
            head = stream.read(MAX_POINTER) if size < MAX_POINTER else b""
    except OSError as error:
        return Defect(DefectKind.UNREADABLE, f"cannot be read: {_reason(error)}")
    pointer = parse_pointer(head)
    return Located(real, size if pointer is None else pointer.size, pointer)


def _allowed_roots(root: Path) -> tuple[Path, ...]:
    """Where a link in the folder may lead: into it, or into the Hub cache it is a snapshot of.

    The Hub cache keeps `snapshots/<commit>/<file>` as links to `blobs/<hash>` beside it. `blobs`
    is not resolved: as a link it could lead anywhere.
    """
    real = root.resolve(strict=True)
    return (real, *(p.parent / "blobs" for p in real.parents if p.name == "snapshots"))


def _open(path: Path, roots: Sequence[Path]) -> BinaryIO | Defect:
    """Open a regular file that really lies in one of the roots."""
    try:
        real = path.resolve()
        if not any(real.is_relative_to(root) for root in roots):
            return Defect(DefectKind.OUTSIDE, "is a link that leads out of the model folder")
        # Looked at before and after: opening a device can have an effect of its own.
        if stat.S_ISREG(real.stat().st_mode):
            stream = os.fdopen(os.open(real, _FLAGS), "rb")
            if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                return stream
            stream.close()
    except (OSError, RuntimeError) as error:
        return Defect(DefectKind.UNREADABLE, f"cannot be read: {_reason(error)}")
    return Defect(DefectKind.UNREADABLE, "is not a regular file")


def _read_document(
    name: str, path: Path, roots: Sequence[Path], limit: int, pointers: dict[str, Pointer]
) -> RawDocument:
    stream = _open(path, roots)
    if isinstance(stream, Defect):
        return RawDocument(name, stream)
    try:
        with stream:
            content = stream.read(limit + 1)
    except OSError as error:
        message = f"cannot be read: {_reason(error)}"
        return RawDocument(name, Defect(DefectKind.UNREADABLE, message))
    if len(content) > limit:
        message = f"is larger than {limit} bytes"
        return RawDocument(name, Defect(DefectKind.TOO_LARGE, message))
    if (pointer := parse_pointer(content)) is not None:
        pointers[name] = pointer
        return RawDocument(name, _not_fetched())
    return RawDocument(name, content)


def _read_card(path: Path, roots: Sequence[Path]) -> bytes:
    """The head of README.md without the prose; empty if there is none or it cannot be read."""
    stream = _open(path, roots)
    if isinstance(stream, Defect):
        return b""
    try:
        with stream:
            return front_matter(stream.read(MAX_CARD))
    except OSError:
        return b""


def _read_weights(
    name: str, path: Path, roots: Sequence[Path], limit: int, pointers: dict[str, Pointer]
) -> RawFile:
    stream = _open(path, roots)
    if isinstance(stream, Defect):
        return RawFile(name, 0, stream)
    try:
        with stream:
            size = os.fstat(stream.fileno()).st_size
            head = stream.read(MAX_POINTER) if size < MAX_POINTER else b""
            if (pointer := parse_pointer(head)) is not None:
                pointers[name] = pointer
                return RawFile(name, pointer.size, _not_fetched())
            stream.seek(0)
            return RawFile(name, size, read_header(stream, size=size, limit=limit))
    except OSError as error:
        defect = Defect(DefectKind.UNREADABLE, f"cannot be read: {_reason(error)}")
        return RawFile(name, 0, defect)


def _read_part(
    entries: Mapping[str, Path], roots: Sequence[Path], name: str, begin: int, end: int
) -> bytes:
    """Bytes of a weight file.

    Raises:
        UnreadError: They are not there, or no longer.
    """
    stream = _open(entries[name], roots)
    if isinstance(stream, Defect):
        raise UnreadError(stream.message)
    try:
        with stream:
            stream.seek(begin)
            content = stream.read(end - begin)
    except OSError as error:
        raise UnreadError(f"cannot be read: {_reason(error)}") from None
    if len(content) < end - begin:
        raise UnreadError("became shorter while it was read")
    return content


def _not_fetched() -> Defect:
    return Defect(DefectKind.NOT_FETCHED, "is a Git LFS pointer, the file itself is not here")


def _bytes_read(documents: Sequence[RawDocument], files: Sequence[RawFile]) -> int:
    return sum(_length(d.content) for d in documents) + sum(8 + _length(f.header) for f in files)


def _length(content: bytes | Defect) -> int:
    return 0 if isinstance(content, Defect) else len(content)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, RuntimeError):
        return False


def _text(name: str) -> str:
    """The name as text that can be written anywhere; a name need not be UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__
