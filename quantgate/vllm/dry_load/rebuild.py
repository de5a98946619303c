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


def rebuild(raw: RawCheckpoint, folder: Path) -> None:
    """Write the model into `folder`, which does not exist yet.

    Raises:
        CannotRebuild: A file that vLLM would read was not read, or cannot be written here.
    """
    names = {d.name for d in raw.configs}
    if not names & {"config.json", "params.json"}:
        raise CannotRebuild("it has no config.json, without which vLLM builds nothing")
    if not any(f.name.endswith(WEIGHT_SUFFIX) for f in raw.files):
        raise CannotRebuild("it has no safetensors files, and only those can be loaded dry")
    folder.mkdir(parents=True)
    try:
        for document in [*raw.configs, *([raw.index] if raw.index else [])]:
            (folder / document.name).write_bytes(_content(document))
        for file in raw.files:
            if isinstance(file.header, Defect):
                raise CannotRebuild(_unread(file.name, file.header))
            with (folder / file.name).open("wb") as out:
                out.write(struct.pack("<Q", len(file.header)))
                out.write(file.header)
                out.truncate(file.size)
    except OSError as error:
        raise CannotRebuild(f"a file of its size cannot be made here: {error.strerror}") from None


def _content(document: RawDocument) -> bytes:
    if isinstance(document.content, Defect):
        raise CannotRebuild(_unread(document.name, document.content))
    return document.content


def _unread(name: str, defect: Defect) -> str:
    if defect.kind is DefectKind.NOT_FETCHED:
        return f"{name} is a Git LFS pointer, its file was not fetched"
    return f"{name} could not be read: {defect.message}"
