"""The files behind Git LFS pointers: asked of the LFS server's batch API, and read by range.

docs/api/batch.md and docs/api/basic-transfers.md of Git LFS. Of weights only headers are read, so
their hash cannot be computed; oid and size of the server's answer and the size that comes with
each range are held against the pointer. Whole documents are held against their hash.
"""

from __future__ import annotations

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quantgate.checkpoint.cache import Cache, default_cache
from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.checkpoint.lfs_server import LfsServer, NoServerError, find_server, origin_of
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
    from collections.abc import Iterable, Mapping, Sequence
    from concurrent.futures import Executor

    from quantgate.checkpoint.pointer import Pointer

MAX_BATCH: Final = 100
"""Objects of one batch request; GitHub and GitLab take at least as many."""

_MEDIA_TYPE = "application/vnd.git-lfs+json"
_MAX_ANSWER = 4_000_000  # bytes; a signed address is about 1 kB
# What a storage answers when a signed address has expired: S3 and Azure 403, others 400, 401, 410.
_EXPIRED = frozenset({400, 401, 403, 410})
# Set by the transport itself, or by nobody.
_OWN_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "range", "transfer-encoding"}
)


class _Action(NamedTuple):
    """Where an object can be had, and the headers to send there."""

    href: str
    headers: Mapping[str, str]


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
    reader = _Reader(
        server, raw.pointers, Transport(limits), default_cache() if cache is None else cache
    )
    with ThreadPoolExecutor(limits.workers, "quantgate-lfs") as pool:
        try:
            return reader.read(raw, pool, scalars=scalars)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


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

    def __init__(
        self,
        server: LfsServer,
        pointers: Mapping[str, Pointer],
        transport: Transport,
        cache: Cache,
    ) -> None:
        self.server = server
        self.pointers = pointers
        self.transport = transport
        self.cache = cache
        self.kept: Mapping[str, bytes] = {}
        self._found: dict[Pointer, _Action | UnreadError] = {}
        self._renewed: set[Pointer] = set()
        self._lock = threading.Lock()

    def read(self, raw: RawCheckpoint, pool: Executor, *, scalars: bool) -> RawCheckpoint:
        """All of it.

        Raises:
            SourceError: As `fetch_pointers`.
        """
        self.kept = {n: c for n in self.pointers if (c := self.cache.get(*self._key(n)))}
        self._resolve(p for n, p in self.pointers.items() if n not in self.kept)
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
            bytes_read=raw.bytes_read + self.transport.bytes_read,
            requests=raw.requests + self.transport.requests,
        )

    def _key(self, name: str) -> tuple[str, ...]:
        """Of a weight file the header is kept, of others all."""
        pointer = self.pointers[name]
        part = "header" if name.endswith(WEIGHT_SUFFIX) else "whole"
        return ("lfs", self.server.url, pointer.oid, str(pointer.size), part)

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
                content = self._get(pointer, limit=limit)
            except UnreadError as error:
                return RawDocument(name, _failed(error))
            if hashlib.sha256(content).hexdigest() != pointer.oid:
                return RawDocument(name, _failed("came with other content: its hash differs"))
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
        return self._get(self.pointers[name], limit=end - begin, span=(begin, end))

    def _get(self, pointer: Pointer, *, limit: int, span: tuple[int, int] | None = None) -> bytes:
        """An object or a part of it; its address is asked for anew once, if it has expired."""
        action = self._action(pointer)
        try:
            return self._get_at(action, pointer, limit, span)
        except UnreadError as error:
            if error.status not in _EXPIRED or not self._renew(pointer):
                raise
        return self._get_at(self._action(pointer), pointer, limit, span)

    def _get_at(
        self, action: _Action, pointer: Pointer, limit: int, span: tuple[int, int] | None
    ) -> bytes:
        return self.transport.get(
            action.href, action.headers, limit=limit, size=pointer.size, span=span
        )

    def _action(self, pointer: Pointer) -> _Action:
        found = self._found.get(pointer)
        if found is None:  # for scalars of a file whose header came from the cache
            self._resolve([pointer])
            found = self._found[pointer]
        if isinstance(found, UnreadError):
            raise found
        return found

    def _renew(self, pointer: Pointer) -> bool:
        with self._lock:
            if pointer in self._renewed:
                return False
            self._renewed.add(pointer)
        self._resolve([pointer])
        return True

    def _resolve(self, pointers: Iterable[Pointer]) -> None:
        """Ask where objects are; what cannot be had is kept as the error that it is."""
        wanted = []
        for pointer in sorted(set(pointers)):
            if pointer.oid:
                wanted.append(pointer)
            else:
                self._found[pointer] = UnreadError("has no oid that makes sense")
        for at in range(0, len(wanted), MAX_BATCH):
            self._found.update(self._ask(wanted[at : at + MAX_BATCH]))

    def _ask(self, pointers: Sequence[Pointer]) -> dict[Pointer, _Action | UnreadError]:
        """One batch request."""
        body = {
            "operation": "download",
            "transfers": ["basic"],
            "objects": [{"oid": p.oid, "size": p.size} for p in pointers],
        }
        headers = {"accept": _MEDIA_TYPE, "content-type": _MEDIA_TYPE}
        if self.server.authorization:
            headers["authorization"] = self.server.authorization
        try:
            content = self.transport.post(
                f"{self.server.url}/objects/batch",
                headers,
                json.dumps(body).encode(),
                limit=_MAX_ANSWER,
            )
            answers = _answers(content)
        except UnreadError as error:
            refused = self._refused(error)
            return dict.fromkeys(pointers, refused)
        return {p: self._found_in(answers.get(p.oid), p) for p in pointers}

    def _refused(self, error: UnreadError) -> UnreadError:
        """What it means that the server would not talk at all."""
        told = f": {error.text}" if error.text else ""
        host = self.server.host
        if error.status in {401, 403, 404}:
            access = (
                "the token may not read the repository there"
                if self.server.authorization
                else "without a token"
            )
            message = f"was refused by {host} ({error.status}{told}), {access}"
        elif error.status == 509:
            message = f"was refused by {host}: its bandwidth is used up{told}"
        else:
            message = f"was not looked up at {host}, as the answer {error}"
        return UnreadError(message, status=error.status)

    def _found_in(
        self, answer: Mapping[str, Any] | None, pointer: Pointer
    ) -> _Action | UnreadError:
        """What the server says of one object."""
        host = self.server.host
        if answer is None:
            return UnreadError(f"was left out of the answer of {host}")
        error = answer.get("error")
        if error is not None:
            return _object_error(error, host)
        if answer.get("size", pointer.size) != pointer.size:
            return UnreadError(
                f"has {str(answer['size'])[:20]} bytes at {host}, and {pointer.size} in the pointer"
            )
        try:
            download = answer["actions"]["download"]
            href, given = download["href"], download.get("header") or {}
            headers = {str(k): v for k, v in given.items() if isinstance(v, str)}
        except (AttributeError, KeyError, TypeError):
            return UnreadError(f"cannot be downloaded, says {host}")
        origin, own = origin_of(href) if isinstance(href, str) else "", origin_of(self.server.url)
        if not origin or (own.startswith("https:") and not origin.startswith("https:")):
            return UnreadError(f"has no safe address: {host} named another than https")
        headers = {k: v for k, v in headers.items() if k.lower() not in _OWN_HEADERS}
        signed = answer.get("authenticated") is True or "authorization" in map(str.lower, headers)
        if origin == own and not signed and self.server.authorization:
            # As Git LFS does, on the server's own host and nowhere else.
            headers["authorization"] = self.server.authorization
        return _Action(href, headers)


def _answers(content: bytes) -> dict[str, Mapping[str, Any]]:
    """The objects of an answer of the batch API by oid.

    Raises:
        UnreadError: It is no such answer, or for another way of transfer.
    """
    try:
        answer = json.loads(content)
        if answer.get("transfer", "basic") != "basic":
            raise UnreadError("is for a kind of transfer that was not asked for")
        return {entry["oid"]: entry for entry in answer["objects"] if isinstance(entry, dict)}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise UnreadError("is not that of an LFS server") from None


def _object_error(error: object, host: str) -> UnreadError:
    """docs/api/batch.md, "Response Errors", of an object."""
    code, text = (
        (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
    )
    code = code if type(code) is int else 0
    told = " ".join(text.split())[:200] if isinstance(text, str) and text.isprintable() else ""
    words = {
        403: "may not be read there",
        404: f"is not there: whoever committed the pointer has not pushed the file to {host}",
        409: "has another hash there",
        410: "was removed there",
        422: "is not accepted there as an object",
        429: "was refused there: too many requests",
    }.get(code, "cannot be had there")
    answer = f"{code}, {told}" if told else str(code)
    return UnreadError(f"{words} ({host} answered {answer})", status=code)


def _failed(error: UnreadError | str) -> Defect:
    return Defect(DefectKind.NOT_ANSWERED, f"is a Git LFS pointer, and its file {error}")
