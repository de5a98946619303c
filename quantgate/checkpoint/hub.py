"""A model on the Hugging Face Hub: its listing, configs and headers at one commit, no weights.

The revision is resolved to a commit once, and everything is read at that commit. The same answer
lists the files with their sizes and oids, which is what shows a truncated file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit

from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.utils import build_hf_headers

from quantgate import __version__
from quantgate.checkpoint.cache import Cache, default_cache
from quantgate.checkpoint.card import CARD_NAME, MAX_CARD, front_matter
from quantgate.checkpoint.hub_listing import COMMIT, Listing, parse_listing
from quantgate.checkpoint.hub_refusals import RERUN, fatal, no_model, refusal
from quantgate.checkpoint.model import Defect, DefectKind, Index, WeightFile
from quantgate.checkpoint.ranges import (
    UNKNOWN,
    RemoteFile,
    expected_headers,
    progress,
    pull_headers,
)
from quantgate.checkpoint.raw import (
    CONFIG_NAMES,
    MAX_CONFIG,
    MAX_INDEX,
    WEIGHT_SUFFIX,
    RawCheckpoint,
    RawDocument,
    RawFile,
    SourceError,
    UnreadError,
    choose_index,
    collector_paused,
    index_of,
    weights_of,
)
from quantgate.checkpoint.scalars import read_scalars
from quantgate.checkpoint.transport import Limits, Transport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Executor

    from quantgate.checkpoint.hub_listing import ListedFile

SCHEME: Final = "hf://"
MAX_LISTING: Final = 50_000_000
"""Bytes of the listing of a repository that are read; 1,000 files take 0.3 MB."""

_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[\w.+-][\w./+-]{0,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Repository:
    """A model repository: `org/name`, the revision that was asked for, and on which Hub."""

    id: str
    revision: str
    endpoint: str

    @property
    def address(self) -> str:
        """Where people look at it."""
        return f"{self.endpoint}/{self.id}"


def parse_source(source: str, endpoint: str = "") -> Repository:
    """`org/name[@revision]`, with `hf://` before it or not.

    Raises:
        SourceError: It is neither, or HF_ENDPOINT is no address.
    """
    endpoint = (endpoint or str(HfApi().endpoint)).rstrip("/")
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SourceError(f"HF_ENDPOINT is {endpoint!r}, which is not the address of a Hub.")
    bare = source.removeprefix(SCHEME).removeprefix("models/")
    name, at, revision = unquote(bare).partition("@")
    if not _ID.fullmatch(name) or (at and not _REVISION.fullmatch(revision)):
        raise SourceError(f"{source!r} does not name a repository: write org/name or org/name@rev.")
    return Repository(name, revision or "main", endpoint)


def read_hub(
    source: str,
    *,
    scalars: bool = False,
    endpoint: str = "",
    limits: Limits = Limits(),  # noqa: B008  it is frozen
    cache: Cache | None = None,
) -> RawCheckpoint:
    """Read the configs, the index and the headers of a model repository, not of its sub-folders.

    Args:
        source: `org/name[@revision]`, with `hf://` before it or not.
        scalars: Whether to read the values of lone scales too.
        endpoint: Address of the Hub; `HF_ENDPOINT` or huggingface.co without it.
        limits: How hard to try.
        cache: What was read before; the user's without it.

    Raises:
        SourceError: There is no such repository or revision, it may not be read, it holds no
            model, or the Hub does not answer.
    """
    repository = parse_source(source, endpoint)
    transport = Transport(limits)
    reader = _Reader(repository, transport, default_cache() if cache is None else cache)
    with collector_paused(), transport.pool("quantgate-hub") as pool:
        return reader.read(source, pool, scalars=scalars)


def kept_header_bytes(source: str, *, endpoint: str = "", cache: Cache | None = None) -> int:
    """Bytes of a model's headers, as far as the cache knows all of them; else 0. Asks nobody.

    Only a commit is known there: what a branch is now, the Hub would have to say.
    """
    cache = default_cache() if cache is None else cache
    try:
        repository = parse_source(source, endpoint)
    except SourceError:
        return 0
    kept = cache.get(*_listing_key(repository), repository.revision)
    if kept is None:
        return 0
    files = (f for f in Listing.from_kept(kept).files if "/" not in f.name)
    sizes = [
        cache.size(*_header_key(repository, f)) for f in files if f.name.endswith(WEIGHT_SUFFIX)
    ]
    return sum(sizes) if all(sizes) else 0


def _listing_key(repository: Repository) -> tuple[str, ...]:
    return ("listing", repository.endpoint, repository.id)


def _header_key(repository: Repository, file: ListedFile) -> tuple[str, ...]:
    return ("header", repository.endpoint, file.oid, str(file.size))


class _Reader:
    """Reads one repository."""

    def __init__(self, repository: Repository, transport: Transport, cache: Cache) -> None:
        self.repository = repository
        self.transport = transport
        self.cache = cache
        self.headers = build_hf_headers(library_name="quantgate", library_version=__version__)
        self.commit = ""
        self.files: Mapping[str, ListedFile] = {}
        self.parsed: dict[RawFile | RawDocument, WeightFile | Index] = {}

    def read(self, source: str, pool: Executor, *, scalars: bool) -> RawCheckpoint:
        """All of it.

        Raises:
            SourceError: As `read_hub`.
        """
        listing = self._listing()
        self.commit = listing.commit
        self.files = {f.name: f for f in listing.files if "/" not in f.name}
        weights = sorted(name for name in self.files if name.endswith(WEIGHT_SUFFIX))
        others = self.files.keys() - CONFIG_NAMES - set(weights)
        if not weights and (failure := no_model(self.repository, listing)) is not None:
            raise failure
        index_name = choose_index(self.files)
        index_task = index_name and pool.submit(self._document, index_name, MAX_INDEX)
        names = sorted(CONFIG_NAMES & self.files.keys())
        tasks = [pool.submit(self._document, name, MAX_CONFIG) for name in names]
        card_task = pool.submit(self._card)
        index = index_task.result() if index_task else None
        remote = self._remote(weights, index)
        files = self._headers(remote, pool, source)
        configs = tuple(task.result() for task in tasks)
        if card := card_task.result():
            configs = (*configs, RawDocument(CARD_NAME, card))
        values = read_scalars(files, self._kept_range, pool.map).values if scalars else None
        self.cache.prune()
        return RawCheckpoint(
            source=source,
            configs=configs,
            files=files,
            index=index,
            other_files=tuple(sorted(others - {index_name})),
            revision=self.commit,
            bytes_read=self.transport.bytes_read,
            requests=self.transport.requests,
            scalars=values,
            parsed=self.parsed,
        )

    def _listing(self) -> Listing:
        """The files at the commit that the revision stands for.

        Raises:
            SourceError: There is none, or the Hub does not tell.
        """
        repository = self.repository
        key = _listing_key(repository)
        if COMMIT.fullmatch(repository.revision):
            kept = self.cache.get(*key, repository.revision)
            if kept is not None:
                return Listing.from_kept(kept)
        revision = quote(repository.revision, safe="")
        url = f"{repository.endpoint}/api/models/{repository.id}/revision/{revision}?blobs=true"
        try:
            content = self.transport.get(url, self.headers, limit=MAX_LISTING)
        except UnreadError as error:
            raise refusal(error, repository, self.headers) from None
        listing = parse_listing(content)
        if listing is None:
            raise SourceError(
                f"{repository.endpoint} does not answer like a Hub: its listing of "
                f"{repository.id!r} makes no sense. {RERUN}"
            )
        self.cache.put(listing.kept(), *key, listing.commit)
        return listing

    def _fatal(self, error: UnreadError) -> SourceError | None:
        return fatal(error, self.repository, self.headers)

    def _remote(self, weights: Sequence[str], index: RawDocument | None) -> list[RemoteFile]:
        sizes = {name: self.files[name].size for name in weights}
        expected: Mapping[str, int] = {}
        if index is not None:
            parsed = self.parsed[index] = index_of(index)
            expected = expected_headers(parsed.weight_map, sizes)
        return [RemoteFile(name, sizes[name], expected.get(name, UNKNOWN)) for name in weights]

    def _url(self, name: str) -> str:
        repository = self.repository
        return hf_hub_url(repository.id, name, revision=self.commit, endpoint=repository.endpoint)

    def _document(self, name: str, limit: int) -> RawDocument:
        """A whole file, held against its oid."""
        file = self.files[name]
        if file.size > limit:
            message = f"is larger than {limit} bytes"
            return RawDocument(name, Defect(DefectKind.TOO_LARGE, message))
        key = ("file", self.repository.endpoint, file.oid)
        content = self.cache.get(*key)
        if content is not None:
            return RawDocument(name, content)
        try:
            content = self.transport.get(self._url(name), self.headers, limit=limit, size=file.size)
        except UnreadError as error:
            if (failure := self._fatal(error)) is not None:
                raise failure from None
            return RawDocument(name, Defect(DefectKind.NOT_ANSWERED, str(error)))
        if not file.holds(content):
            message = "came with other content than the listing says (its hash differs)"
            return RawDocument(name, Defect(DefectKind.NOT_ANSWERED, message))
        self.cache.put(content, *key)
        return RawDocument(name, content)

    def _card(self) -> bytes:
        """The head of README.md without the prose; empty if there is none or it did not come."""
        file = self.files.get(CARD_NAME)
        if file is None or file.size == 0:
            return b""
        key = ("card", self.repository.endpoint, file.oid)
        kept = self.cache.get(*key)
        if kept is not None:
            return kept
        try:
            card = front_matter(self._range(CARD_NAME, 0, min(file.size, MAX_CARD)))
        except UnreadError:
            return b""  # nothing depends on it
        self.cache.put(card, *key)
        return card

    def _headers(
        self, remote: Sequence[RemoteFile], pool: Executor, title: str
    ) -> tuple[RawFile, ...]:
        """The headers of the weight files, those that were read before from the cache."""
        found: dict[str, RawFile] = {}
        for file in remote:
            kept = self.cache.get(*self._header_key(file.name))
            if kept is not None:
                found[file.name] = RawFile(file.name, file.size, kept)
        wanted = [f for f in remote if f.name not in found]
        with progress(title, len(wanted)) as advance:
            pulled = pull_headers(
                wanted,
                self._range,
                pool,
                progress=advance,
                fatal=self._fatal,
                done=self._arrived,
            )
        found |= {raw.name: raw for raw in pulled}
        return tuple(found[f.name] for f in remote)

    def _arrived(self, raw: RawFile) -> None:
        """Keep a header for the next run, and parse it while others are on their way."""
        if isinstance(raw.header, bytes):
            self.cache.put(raw.header, *self._header_key(raw.name))
            self.parsed[raw] = weights_of(raw)

    def _header_key(self, name: str) -> tuple[str, ...]:
        return _header_key(self.repository, self.files[name])

    def _kept_range(self, name: str, begin: int, end: int) -> bytes:
        """A part of a weight file, from the cache if it was read before."""
        key = (*self._header_key(name), str(begin), str(end))
        content = self.cache.get(*key)
        if content is None:
            content = self._range(name, begin, end)
            self.cache.put(content, *key)
        return content

    def _range(self, name: str, begin: int, end: int) -> bytes:
        """A part of a weight file."""
        return self.transport.get(
            self._url(name),
            self.headers,
            limit=end - begin,
            size=self.files[name].size,
            span=(begin, end),
        )
