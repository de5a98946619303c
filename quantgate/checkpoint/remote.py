"""A model folder at an address: object stores through fsspec, and plain web servers.

Only where a user typed the address: what a repository lists must not make a machine read addresses
inside its network. No token of GitHub or of the Hub is sent there; a store's own library finds its
own credentials.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from quantgate.checkpoint.card import CARD_NAME, MAX_CARD, front_matter
from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.ranges import (
    UNKNOWN,
    RemoteFile,
    expected_headers,
    progress,
    pull_headers,
)
from quantgate.checkpoint.raw import (
    CONFIG_NAMES,
    INDEX_SUFFIX,
    MAX_CONFIG,
    MAX_INDEX,
    WEIGHT_SUFFIX,
    RawCheckpoint,
    RawDocument,
    RawFile,
    SourceError,
    UnreadError,
    choose_index,
    index_of,
)
from quantgate.checkpoint.scalars import read_scalars
from quantgate.checkpoint.transport import Limits, Transport

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

PACKAGES: Final[Mapping[str, str]] = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "oci": "ocifs",
    "oss": "ossfs",
    "memory": "fsspec",
}
"""Scheme → the package with its file system. Others of fsspec open local files or other URLs."""

MAX_FILES: Final = 5_000
"""Weight files that an index may name; the largest models have some hundreds."""

_NAME = re.compile(r"[\w.+=@ -]+", re.ASCII)
_GUESSES = (
    *sorted(CONFIG_NAMES),
    CARD_NAME,
    *(
        f"{kind}{suffix}"
        for kind in ("model", "consolidated")
        for suffix in (WEIGHT_SUFFIX, INDEX_SUFFIX)
    ),
)
# A web server cannot be asked for a list; many stores hide behind 403 that a file is not there.
_ABSENT = frozenset({403, 404, 410})


class _Place(Protocol):
    """Where a model's files lie. Counts what it reads, and may be used by several threads."""

    @property
    def bytes_read(self) -> int:
        """Bytes so far."""

    @property
    def requests(self) -> int:
        """Requests so far."""

    def files(self, pool: Executor) -> Mapping[str, int | UnreadError]:
        """File → its bytes, or why they are not known.

        Raises:
            SourceError: Nothing can be said of the folder.
        """

    def read(self, name: str, begin: int, end: int, /) -> bytes:
        """A part of a file.

        Raises:
            UnreadError: It could not be had.
        """


def read_url(
    source: str,
    *,
    scalars: bool = False,
    limits: Limits = Limits(),  # noqa: B008  it is frozen
) -> RawCheckpoint:
    """Read the configs, the index and the headers of a model folder at an address.

    Args:
        source: `s3://bucket/folder`, `gs://…`, `https://host/folder`, ….
        scalars: Whether to read the values of lone scales too.
        limits: How hard to try; a store's own library has its own deadlines.

    Raises:
        SourceError: It is no address that is read, its library is missing, there is no model, or
            nothing answers.
    """
    transport = Transport(limits)
    place = _place(source, transport)
    with transport.pool("quantgate-url") as pool:
        return _read(source, place, pool, scalars=scalars)


def _place(source: str, transport: Transport) -> _Place:
    scheme = source.partition("://")[0]
    if scheme in {"http", "https"}:
        return _Web(_folder_of(source), transport)
    if scheme not in PACKAGES or "::" in source:
        known = ", ".join(["hf", "https", *(s for s in PACKAGES if s != "memory")])
        raise SourceError(f"{source!r} cannot be read: its scheme is none of {known}.")
    return _Store(source, scheme)


def _folder_of(source: str) -> str:
    """The address of the folder, with a slash at its end.

    Raises:
        SourceError: It has more parts than a folder.
    """
    try:
        parts = urlsplit(source)
        whole = bool(parts.hostname) and (parts.port or 1) and source.isprintable()
    except ValueError:
        whole = False
    if not whole or " " in source:
        raise SourceError(f"{source!r} is no address.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SourceError(
            f"The address at {parts.hostname} has a user, a query or a fragment in it, which would "
            "end up in reports: give the plain address of a folder."
        )
    return source.rstrip("/") + "/"


def _read(source: str, place: _Place, pool: Executor, *, scalars: bool) -> RawCheckpoint:
    found = place.files(pool)
    weights = sorted(name for name in found if name.endswith(WEIGHT_SUFFIX))
    if "config.json" not in found and not weights:
        raise SourceError(
            f"{source!r} is no model: there is neither config.json nor *{WEIGHT_SUFFIX}."
        )
    read = partial(_document, place, found)
    index_name = choose_index(found)
    index = read(index_name, MAX_INDEX) if index_name else None
    names = sorted(CONFIG_NAMES & found.keys())
    configs = tuple(pool.map(read, names, [MAX_CONFIG] * len(names)))
    if card := _card(place, found):
        configs = (*configs, RawDocument(CARD_NAME, card))
    sizes = {n: size for n in weights if isinstance(size := found[n], int)}
    expected = expected_headers(index_of(index).weight_map, sizes) if index else {}
    remote = [RemoteFile(n, size, expected.get(n, UNKNOWN)) for n, size in sizes.items()]
    with progress(source, len(remote)) as advance:
        pulled = {f.name: f for f in pull_headers(remote, place.read, pool, progress=advance)}
    files = tuple(pulled.get(n) or RawFile(n, 0, _failed(found[n])) for n in weights)
    values = read_scalars(files, place.read, pool.map).values if scalars else None
    others = found.keys() - CONFIG_NAMES - set(weights) - {index_name}
    return RawCheckpoint(
        source=source,
        configs=configs,
        files=files,
        index=index,
        other_files=tuple(sorted(others)),
        bytes_read=place.bytes_read,
        requests=place.requests,
        scalars=values,
    )


def _document(
    place: _Place, found: Mapping[str, int | UnreadError], name: str, limit: int
) -> RawDocument:
    size = found[name]
    if isinstance(size, UnreadError):
        return RawDocument(name, _failed(size))
    if size > limit:
        message = f"is larger than {limit} bytes"
        return RawDocument(name, Defect(DefectKind.TOO_LARGE, message))
    try:
        return RawDocument(name, place.read(name, 0, size) if size else b"")
    except UnreadError as error:
        return RawDocument(name, _failed(error))


def _card(place: _Place, found: Mapping[str, int | UnreadError]) -> bytes:
    size = found.get(CARD_NAME)
    if not isinstance(size, int) or size == 0:
        return b""
    try:
        return front_matter(place.read(CARD_NAME, 0, min(size, MAX_CARD)))
    except UnreadError:
        return b""  # nothing depends on it


def _failed(error: object) -> Defect:
    return Defect(DefectKind.NOT_ANSWERED, str(error))


class _Web:
    """A folder of a web server, which tells of no file unless it is asked for it by name."""

    def __init__(self, folder: str, transport: Transport) -> None:
        self.folder = folder
        self.transport = transport
        self._sizes: dict[str, int | UnreadError] = {}

    @property
    def bytes_read(self) -> int:
        return self.transport.bytes_read

    @property
    def requests(self) -> int:
        return self.transport.requests

    def files(self, pool: Executor) -> Mapping[str, int | UnreadError]:
        """The usual names, and those that the index gives."""
        answers = dict(zip(_GUESSES, pool.map(self._size, _GUESSES), strict=True))
        failed = [a for a in answers.values() if isinstance(a, UnreadError)]
        self._sizes = {
            n: a
            for n, a in answers.items()
            if not (isinstance(a, UnreadError) and a.status in _ABSENT)
        }
        if len(failed) == len(answers):
            worst = next((a for a in failed if a.status not in _ABSENT), failed[0])
            raise SourceError(f"The folder {self.folder!r} {worst}.")
        index = choose_index(self._sizes)
        size = self._sizes.get(index or "")
        if index and isinstance(size, int) and size <= MAX_INDEX:
            self._add_named(index, size, pool)
        return self._sizes

    def _add_named(self, index: str, size: int, pool: Executor) -> None:
        try:
            content = self.read(index, 0, size) if size else b""
        except UnreadError:
            return  # told when it is read as a document
        named = set(index_of(RawDocument(index, content)).weight_map.values())
        wanted = sorted(n for n in named - self._sizes.keys() if _NAME.fullmatch(n))
        if len(wanted) > MAX_FILES:
            raise SourceError(f"{index!r} names more than {MAX_FILES} weight files.")
        for name, answer in zip(wanted, pool.map(self._size, wanted), strict=True):
            # 403 may hide a file that is there: that is not the same as a missing one.
            if not (isinstance(answer, UnreadError) and answer.status in {404, 410}):
                self._sizes[name] = answer

    def _size(self, name: str) -> int | UnreadError:
        try:
            return self.transport.size(self.folder + name, {})
        except UnreadError as error:
            return error

    def read(self, name: str, begin: int, end: int, /) -> bytes:
        """A part of a file."""
        size = self._sizes.get(name)
        return self.transport.get(
            self.folder + name,
            {},
            limit=end - begin,
            size=size if isinstance(size, int) else None,
            span=(begin, end),
        )


class _Store:
    """A folder of an object store."""

    def __init__(self, source: str, scheme: str) -> None:
        self.source = source
        self.bytes_read = 0
        self.requests = 0
        package = PACKAGES[scheme]
        try:
            import fsspec  # noqa: PLC0415  an extra

            # Nothing of an earlier run: neither its listing nor its files.
            self.system: Any = fsspec.filesystem(
                scheme, skip_instance_cache=True, use_listings_cache=False
            )
            self.folder: str = self.system._strip_protocol(source).rstrip("/")
        except ImportError:
            raise SourceError(
                f"{source!r} needs the package {package}: run `pip install {package}` where "
                "quantgate is installed."
            ) from None
        except Exception as error:
            raise SourceError(f"{source!r} cannot be read: {_words(error)}.") from None

    def files(self, pool: Executor) -> Mapping[str, int | UnreadError]:
        """What the store lists."""
        del pool
        self.requests += 1
        try:
            listed = self.system.ls(self.folder, detail=True)
        except FileNotFoundError:
            raise SourceError(f"There is no {self.source!r}.") from None
        except Exception as error:  # each store's library has its own
            raise SourceError(f"{self.source!r} cannot be listed: {_words(error)}.") from None
        return {
            entry["name"].rstrip("/").rpartition("/")[2]: entry["size"]
            if isinstance(entry.get("size"), int)
            else UnreadError("has no size in the store's listing")
            for entry in listed
            if entry.get("type") == "file"
        }

    def read(self, name: str, begin: int, end: int, /) -> bytes:
        """A part of a file."""
        self.requests += 1
        try:
            content = bytes(self.system.cat_file(f"{self.folder}/{name}", start=begin, end=end))
        except Exception as error:
            raise UnreadError(f"could not be fetched: {_words(error)}") from None
        self.bytes_read += len(content)
        if len(content) != end - begin:
            raise UnreadError(f"came incomplete: {len(content)} of {end - begin} bytes")
        return content


def _words(error: Exception) -> str:
    """What a library says, on one line; it may be long, and quote what a server sent."""
    text = " ".join(str(error).split())[:160]
    return (
        f"{type(error).__name__}: {text}" if text.isprintable() and text else type(error).__name__
    )
