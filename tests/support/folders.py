"""Model folders written file by file, and what was read of one of their files."""

from __future__ import annotations

import json
from pathlib import Path

from quantgate.checkpoint import Checkpoint, DefectKind, WeightFile

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4800\n" % (b"0" * 64)


def weights(*names: str, metadata: dict | None = None) -> bytes:
    """A safetensors file with one byte per tensor."""
    header: dict = {
        name: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]}
        for i, name in enumerate(names)
    }
    if metadata is not None:
        header["__metadata__"] = metadata
    blob = json.dumps(header).encode()
    return len(blob).to_bytes(8, "little") + blob + bytes(len(names))


def model(folder: Path, **files: bytes | str | dict) -> Path:
    """Write files, `__` in a name standing for a dot, and give back the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = json.dumps(content) if isinstance(content, dict) else content
        data = text.encode() if isinstance(text, str) else text
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def file_of(checkpoint: Checkpoint, name: str) -> WeightFile:
    return next(f for f in checkpoint.files if f.name == name)


def kind_of(checkpoint: Checkpoint, name: str) -> DefectKind:
    file = file_of(checkpoint, name)
    assert file.header is None
    (defect,) = file.defects
    return defect.kind
