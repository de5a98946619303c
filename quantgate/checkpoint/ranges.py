"""Safetensors headers of files that are far away: one range each, a second where it fell short.

It does not matter here how bytes come (the Hub, an LFS server, an object store): a source hands
in `ReadRange`.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from concurrent.futures import Executor, Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from huggingface_hub.utils import tqdm

from quantgate.checkpoint.header import MAX_HEADER, read_header
from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.raw import MAX_HEADERS, RawFile, UnreadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

UNKNOWN: Final = 100_000
"""Bytes of the first range of a file that no index names; most headers are shorter."""

_PREFIX = 8
# {"NAME":{"dtype":"F8_E4M3","shape":[7168,18432],"data_offsets":[BEGIN,END]}, without NAME, BEGIN
# and END. Scales have shorter shapes, so that the sum of a file is nearly always enough.
_ENTRY = 62
_METADATA = 256


class ReadRange(Protocol):
    """Reads a part of a file."""

    def __call__(self, name: str, begin: int, end: int, /) -> bytes:
        """The bytes from `begin` to `end` (exclusive), all of them.

        Raises:
            UnreadError: They could not be had.
        """


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A weight file: its size in bytes as listed, and the expected length of its header."""

    name: str
    size: int
    expected: int = UNKNOWN


def expected_headers(weight_map: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, int]:
    """File → expected length of its header, from the names that an index says are in it.

    The offsets of a file have as many digits as its size.
    """
    lengths: dict[str, int] = defaultdict(int)
    for tensor, file in weight_map.items():
        lengths[file] += len(tensor) + _ENTRY
    counts: dict[str, int] = defaultdict(int)
    for file in weight_map.values():
        counts[file] += 1
    return {
        file: _METADATA + length + 2 * counts[file] * len(str(sizes[file]))
        for file, length in lengths.items()
        if file in sizes
    }


def pull_headers(
    files: Sequence[RemoteFile],
    read: ReadRange,
    pool: Executor,
    *,
    progress: Callable[[int], Any] = lambda _: None,
    fatal: Callable[[UnreadError], Exception | None] = lambda _: None,
    done: Callable[[RawFile], None] = lambda _: None,
) -> list[RawFile]:
    """The headers of all files, in their order.

    Args:
        files: What to read.
        read: How to read it.
        pool: Bounds how many are read at a time.
        progress: Called with 1 for every file that is done.
        fatal: The exception for an error because of which nothing can be read, None for others.
        done: Called with every file, by the thread that has read it, while others wait for theirs.
    """
    budget = _Budget(MAX_HEADERS)

    def pull(file: RemoteFile) -> RawFile:
        found = pull_header(file, read, budget, fatal)
        done(found)
        return found

    tasks = {pool.submit(pull, f): f.name for f in files}
    found = {tasks[task]: task.result() for task in _finished(tasks, progress)}
    return [found[f.name] for f in files]


def pull_header(
    file: RemoteFile,
    read: ReadRange,
    budget: _Budget,
    fatal: Callable[[UnreadError], Exception | None],
) -> RawFile:
    """The header of one file, or why it is missing."""
    try:
        head = _Head(file, read, budget.left)
        header = read_header(head, size=file.size, limit=min(budget.left, MAX_HEADER))  # type: ignore[arg-type]
    except UnreadError as error:
        if (failure := fatal(error)) is not None:
            raise failure from None
        return RawFile(file.name, file.size, Defect(DefectKind.NOT_ANSWERED, str(error)))
    if isinstance(header, bytes):
        budget.take(len(header))
    return RawFile(file.name, file.size, header)


def _finished(
    tasks: Iterable[Future[RawFile]], progress: Callable[[int], Any]
) -> Iterable[Future[RawFile]]:
    """The tasks as they finish; if one raises, those that have not begun are called off."""
    tasks = list(tasks)
    try:
        for task in as_completed(tasks):
            task.result()
            progress(1)
            yield task
    finally:
        for task in tasks:
            task.cancel()


class _Budget:
    """Bytes of headers that are still read of a model."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._lock = threading.Lock()

    def take(self, number: int) -> None:
        with self._lock:
            self.left = max(0, self.left - number)


class _Head:
    """The begin of a file as a stream: what was expected comes at once, the rest when asked for."""

    def __init__(self, file: RemoteFile, read: ReadRange, limit: int) -> None:
        self._file = file
        self._read = read
        first = min(file.size, _PREFIX + min(file.expected, limit))
        self._have = memoryview(read(file.name, 0, first) if first else b"")
        self._at = 0

    def read(self, number: int) -> bytes:
        begin, end = self._at, min(self._at + number, self._file.size)
        self._at = end
        have = bytes(self._have[begin:end])
        if end > len(self._have):
            have += self._read(self._file.name, max(begin, len(self._have)), end)
        return have


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], Any]]:
    """A bar on a terminal, and nothing in CI, where it would be a thousand lines."""
    if not sys.stderr.isatty() or not total:
        yield lambda _: None
        return
    bar = tqdm(total=total, desc=title, unit="file", leave=False)  # type: ignore[no-untyped-call]
    with bar:
        yield bar.update
