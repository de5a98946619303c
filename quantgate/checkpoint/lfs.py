"""The files behind Git LFS pointers: asked of the LFS server's batch API, and read by range.

docs/api/batch.md and docs/api/basic-transfers.md of Git LFS. Of weights only headers are read, so
their hash cannot be computed; oid and size of the server's answer and the size that comes with
each range are held against the pointer. Whole documents are held against their hash.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from quantgate.checkpoint.cache import Cache, default_cache
from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.checkpoint.lfs_objects import OTHER_CONTENT, LfsObjects
from quantgate.checkpoint.lfs_server import NoServerError, find_server
from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.ranges import (
    UNKNOWN,
    RemoteFile,
    expected_headers,
    progress,
    pull_headers,
)
from quantgate.checkpoint.raw import (
    INDEX_SUFFIX,
    MAX_CONFIG,
    MAX_INDEX,
    WEIGHT_SUFFIX,
    RawCheckpoint,
    RawDocument,
    RawFile,
    UnreadError,
    index_of,
)
from quantgate.checkpoint.scalars import read_scalars
from quantgate.checkpoint.transport import Limits, Transport

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from quantgate.checkpoint.pointer import Pointer


def fetch_pointers(
    raw: RawCheckpoint,
    *,
    mode: Lfs = Lfs.AUTO,
    scalars: bool = False,
    limits: Limits = Limits(),  # noqa: B008  it is frozen
    cache: Cache | None = None,
) -> RawCheckpoint:
    """What a folder holds, with the headers and documents that its pointers stand for.

    Never raises for what the server does: what cannot be had keeps a defect that says why.

    Args:
        raw: As `read_folder` gave it.
        mode: Which servers may be asked.
        scalars: Whether to read the values of lone scales too.
        limits: How hard to try.
        cache: What was read before; the user's without it.

    Raises:
        SourceError: Scalars were asked for and could not be had.
    """
    try:
        server = find_server(Path(raw.source).resolve(), mode)
    except (NoServerError, OSError, RuntimeError) as error:
        return _unasked(raw, str(error))
    objects = LfsObjects(server, Transport(limits))
    reader = _Reader(objects, raw.pointers, default_cache() if cache is None else cache)
    with objects.transport.pool("quantgate-lfs") as pool:
        return reader.read(raw, pool, scalars=scalars)


def _unasked(raw: RawCheckpoint, why: str) -> RawCheckpoint:
    """The same, with pointers that say why they are nothing more."""

    def told(content: bytes | Defect) -> bytes | Defect:
        if isinstance(content, Defect) and content.kind is DefectKind.NOT_FETCHED:
            return replace(content, message=f"{content.message}: {why}")
        return content

    return replace(
        raw,
        configs=tuple(replace(d, content=told(d.content)) for d in raw.configs),
        index=raw.index and replace(raw.index, content=told(raw.index.content)),
        files=tuple(replace(f, header=told(f.header)) for f in raw.files),
    )


class _Reader:
    """Reads the pointers of one folder."""

    def __init__(self, objects: LfsObjects, pointers: Mapping[str, Pointer], cache: Cache) -> None:
        self.objects = objects
        self.pointers = pointers
        self.cache = cache
        self.kept: Mapping[str, bytes] = {}

    def read(self, raw: RawCheckpoint, pool: Executor, *, scalars: bool) -> RawCheckpoint:
        """All of it.

        Raises:
            SourceError: As `fetch_pointers`.
        """
        self.kept = {n: c for n in self.pointers if (c := self.cache.get(*self._key(n)))}
        self.objects.resolve(p for n, p in self.pointers.items() if n not in self.kept)
        configs = tuple(pool.map(self._document, raw.configs))
        index = raw.index and self._document(raw.index)
        fetched = self._headers(raw, index, pool)
        files = tuple(fetched.get(f.name, f) for f in raw.files)
        values = raw.scalars
        if scalars:
            mine = [f for f in files if f.name in fetched]
            values = {**(values or {}), **read_scalars(mine, self._range, pool.map).values}
        self.cache.prune()
        return replace(
            raw,
            configs=configs,
            index=index,
            files=files,
            scalars=values,
            bytes_read=raw.bytes_read + self.objects.transport.bytes_read,
            requests=raw.requests + self.objects.transport.requests,
        )

    def _key(self, name: str) -> tuple[str, ...]:
        """Of a weight file the header is kept, of others all."""
        pointer = self.pointers[name]
        part = "header" if name.endswith(WEIGHT_SUFFIX) else "whole"
        return ("lfs", self.objects.server.url, pointer.oid, str(pointer.size), part)

    def _document(self, document: RawDocument) -> RawDocument:
        """A config or an index; whole, so its hash decides whether it is what was meant."""
        name = document.name
        pointer = self.pointers.get(name)
        if pointer is None:
            return document
        limit = MAX_INDEX if name.endswith(INDEX_SUFFIX) else MAX_CONFIG
        if pointer.size > limit:
            message = f"is larger than {limit} bytes"
            return RawDocument(name, Defect(DefectKind.TOO_LARGE, message))
        content = self.kept.get(name)
        if content is None:
            try:
                content = self.objects.get(pointer, limit=limit)
            except UnreadError as error:
                return RawDocument(name, _failed(error))
            if hashlib.sha256(content).hexdigest() != pointer.oid:
                return RawDocument(name, _failed(OTHER_CONTENT))
            self.cache.put(content, *self._key(name))
        return RawDocument(name, content)

    def _headers(
        self,
        raw: RawCheckpoint,
        index: RawDocument | None,
        pool: Executor,
    ) -> dict[str, RawFile]:
        """The weight files that are pointers, with their headers."""
        files = [f for f in raw.files if f.name in self.pointers]
        found = {f.name: replace(f, header=self.kept[f.name]) for f in files if f.name in self.kept}
        wanted = [f for f in files if f.name not in found]
        sizes = {f.name: f.size for f in wanted}
        expected = expected_headers(index_of(index).weight_map, sizes) if index else {}
        remote = [RemoteFile(n, size, expected.get(n, UNKNOWN)) for n, size in sizes.items()]
        with progress(raw.source, len(remote)) as advance:
            for file in pull_headers(remote, self._range, pool, progress=advance):
                if isinstance(file.header, bytes):
                    self.cache.put(file.header, *self._key(file.name))
                    found[file.name] = file
                elif file.header.kind is DefectKind.NOT_ANSWERED:
                    found[file.name] = replace(file, header=_failed(file.header.message))
                else:
                    found[file.name] = file
        return found

    def _range(self, name: str, begin: int, end: int) -> bytes:
        return self.objects.get(self.pointers[name], limit=end - begin, span=(begin, end))


def _failed(error: UnreadError | str) -> Defect:
    return Defect(DefectKind.NOT_ANSWERED, f"is a Git LFS pointer, and its file {error}")
