"""A model folder made of what was read of a model: its configs, and weight files without weights.

The child gets the same folder whatever the source was: a folder, a header archive, the Hub. Weight
files are the header and then a hole, as long as the real file, so that the safetensors library
finds what it expects and no disk is filled.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.raw import WEIGHT_SUFFIX

if TYPE_CHECKING:
    from pathlib import Path

    from quantgate.checkpoint.raw import RawCheckpoint, RawDocument


class CannotRebuild(Exception):  # noqa: N818  told as the reason of an unknown outcome
    """There is not enough of the model; the message says what is missing."""


def rebuild(raw: RawCheckpoint, folder: Path) -> str:
    """Write the model into `folder`, which does not exist yet.

    Returns:
        Why its weights cannot be loaded, where only its configs could be written; else empty.

    Raises:
        CannotRebuild: A config that vLLM would read was not read, or a file cannot be written here.
    """
    names = {d.name for d in raw.configs}
    if not names & {"config.json", "params.json"}:
        raise CannotRebuild("it has no config.json, without which vLLM builds nothing")
    unread = _unread_weights(raw)
    folder.mkdir(parents=True)
    try:
        for document in raw.configs:
            (folder / document.name).write_bytes(_content(document))
        if not unread:
            _write_weights(raw, folder)
    except OSError as error:
        raise CannotRebuild(f"a file of its size cannot be made here: {error.strerror}") from None
    return unread


def _unread_weights(raw: RawCheckpoint) -> str:
    if not any(f.name.endswith(WEIGHT_SUFFIX) for f in raw.files):
        return "it has no safetensors files, and only those can be loaded dry"
    held = [(f.name, f.header) for f in raw.files]
    held += [(raw.index.name, raw.index.content)] if raw.index else []
    unread = (_unread(name, content) for name, content in held if isinstance(content, Defect))
    return next(unread, "")


def _write_weights(raw: RawCheckpoint, folder: Path) -> None:
    if raw.index is not None:
        (folder / raw.index.name).write_bytes(_content(raw.index))
    for file in raw.files:
        assert isinstance(file.header, bytes)  # noqa: S101  looked at before
        with (folder / file.name).open("wb") as out:
            out.write(struct.pack("<Q", len(file.header)))
            out.write(file.header)
            out.truncate(file.size)


def _content(document: RawDocument) -> bytes:
    if isinstance(document.content, Defect):
        raise CannotRebuild(_unread(document.name, document.content))
    return document.content


def _unread(name: str, defect: Defect) -> str:
    if defect.kind is DefectKind.NOT_FETCHED:
        return f"{name} is a Git LFS pointer, its file was not fetched"
    return f"{name} could not be read: {defect.message}"
