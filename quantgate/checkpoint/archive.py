"""The header archive: one gzip'ed JSON file with all that is read of a model, and no weights.

It holds the configs and headers as they are, so reading it parses them like those of a folder:
an archive is not trusted more than a file, and a broken model stays broken in it. The same model
gives the same bytes.

```
{"quantgate_archive": 1, "source": "org/model", "revision": "sha or null",
 "configs": {"config.json": CONTENT, ...}, "index": {"name": "...", "content": CONTENT} or null,
 "files": [{"name": "model.safetensors", "size": 123, "header": CONTENT}, ...],
 "other_files": ["README.md", ...], "scalars": {"TENSOR": "0000803f", ...} if they were read}
CONTENT: {"text": "..."} or {"base64": "..."} or {"defect": {"kind", "message", "strict"}}
```
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any, Final

from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.raw import RawCheckpoint, RawDocument, RawFile, SourceError

SUFFIX: Final = ".json.gz"
VERSION: Final = 1
MAX_UNPACKED: Final = 512_000_000
"""Bytes of JSON that an archive may hold; one of 178,000 tensors holds 30 MB."""

_MAX_SIZE = 2**63


def write_archive(raw: RawCheckpoint, path: str | Path) -> None:
    """Write what was read of a model. The file is there in full or not at all.

    Raises:
        SourceError: The model is too large for an archive that `read_archive` would read.
        OSError: The file cannot be written.
    """
    document = {
        "quantgate_archive": VERSION,
        "source": raw.source,
        "revision": raw.revision,
        "configs": {d.name: _pack(d.content) for d in sorted(raw.configs, key=lambda d: d.name)},
        "index": raw.index and {"name": raw.index.name, "content": _pack(raw.index.content)},
        "files": [
            {"name": f.name, "size": f.size, "header": _pack(f.header)}
            for f in sorted(raw.files, key=lambda f: f.name)
        ],
        "other_files": sorted(raw.other_files),
    }
    if raw.scalars is not None:
        document["scalars"] = {n: v.hex() for n, v in sorted(raw.scalars.items())}
    text = json.dumps(document, separators=(",", ":")).encode("ascii")
    if len(text) > MAX_UNPACKED:
        raise SourceError(f"The model {raw.source!r} is too large for an archive.")
    packed = io.BytesIO()
    # No name and no time in the gzip header: both would differ from run to run.
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as stream:
        stream.write(text)
    _write_whole(Path(path), packed.getvalue())


def read_archive(path: str | Path, *, scalars: bool = False) -> RawCheckpoint:
    """Read an archive. `source` is the path, `bytes_read` the size of the packed file.

    Raises:
        SourceError: The archive cannot be read, is not one, or unpacks to too much; or `scalars`
            are asked for and were not packed.
    """
    name = repr(str(path))
    try:
        with Path(path).open("rb") as file:
            packed = file.read(MAX_UNPACKED + 1)
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            text = stream.read(MAX_UNPACKED + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise SourceError(f"The archive {name} is damaged, or is not gzip.") from None
    except OSError as error:
        raise SourceError(f"The archive {name} cannot be read: {error.strerror}.") from None
    if len(text) > MAX_UNPACKED:
        raise SourceError(f"The archive {name} unpacks to more than {MAX_UNPACKED} bytes.")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise SourceError(f"The archive {name} does not hold JSON.") from None
    del text
    if not isinstance(document, dict) or "quantgate_archive" not in document:
        raise SourceError(f"The file {name} is not a quantgate archive.")
    if document["quantgate_archive"] != VERSION:
        raise SourceError(f"The archive {name} was written by another version of quantgate.")
    try:
        raw = _unpack_checkpoint(document, str(path), len(packed))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SourceError(f"The archive {name} is malformed: {error!r}.") from None
    if scalars and raw.scalars is None:
        raise SourceError(
            f"The archive {name} holds no values of scales: pack it with --read-scalars."
        )
    return raw


def _unpack_checkpoint(document: dict[str, Any], source: str, size: int) -> RawCheckpoint:
    revision = document["revision"]
    index = document["index"]
    files = tuple(
        RawFile(_name(f["name"]), _size(f["size"]), _unpack(f["header"])) for f in document["files"]
    )
    if len({f.name for f in files}) < len(files):
        raise ValueError("a file occurs twice")
    return RawCheckpoint(
        source=source,
        configs=tuple(
            RawDocument(_name(name), _unpack(content))
            for name, content in document["configs"].items()
        ),
        files=files,
        index=None
        if index is None
        else RawDocument(_name(index["name"]), _unpack(index["content"])),
        other_files=tuple(_name(n) for n in document["other_files"]),
        revision=None if revision is None else _string(revision),
        bytes_read=size,
        scalars=_scalars(document.get("scalars")),
    )


def _scalars(values: dict[str, Any] | None) -> dict[str, bytes] | None:
    if values is None:
        return None
    return {_string(name): bytes.fromhex(value) for name, value in values.items()}


def _pack(content: bytes | Defect) -> dict[str, Any]:
    if isinstance(content, Defect):
        fields = {"kind": content.kind, "message": content.message, "strict": content.strict}
        return {"defect": fields}
    try:
        return {"text": content.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode("ascii")}


def _unpack(content: dict[str, Any]) -> bytes | Defect:
    if "text" in content:
        return _string(content["text"]).encode("utf-8")
    if "base64" in content:
        return base64.b64decode(_string(content["base64"]), validate=True)
    defect = content["defect"]
    message = _string(defect["message"])
    return Defect(DefectKind(defect["kind"]), message, strict=defect["strict"] is True)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is not a string")
    value.encode("utf-8")
    return value


def _name(value: Any) -> str:
    name = _string(value)
    if not 0 < len(name) < 4096 or "/" in name or "\0" in name:
        raise ValueError("a file name is not one")
    return name


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MAX_SIZE:
        raise ValueError("a size is not one")
    return value


def _write_whole(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
