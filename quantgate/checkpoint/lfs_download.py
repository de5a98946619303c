"""Whole files behind Git LFS pointers, for whoever needs the weights themselves."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import as_completed
from functools import partial
from typing import TYPE_CHECKING, Final

from quantgate.checkpoint.lfs_objects import OTHER_CONTENT, LfsObjects
from quantgate.checkpoint.lfs_server import NoServerError, find_server
from quantgate.checkpoint.ranges import progress
from quantgate.checkpoint.raw import UnreadError
from quantgate.checkpoint.transport import Limits, RangeIgnoredError, Transport

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Executor, Future
    from pathlib import Path

    from quantgate.checkpoint.lfs_mode import Lfs
    from quantgate.checkpoint.pointer import Pointer

PART: Final = 16_000_000
"""Bytes of one request; so many are in memory for each of `Limits.workers`."""


def download_pointers(
    checkout: Path,
    pointers: Mapping[str, Pointer],
    into: Path,
    *,
    mode: Lfs,
    limits: Limits,
) -> None:
    """Write what pointers stand for as files, and hold each against its hash.

    Args:
        checkout: The folder that the pointers lie in, resolved; its checkout names the server.
        pointers: By the name of the file to write.
        into: A folder without files of these names.
        mode: Which servers may be asked.
        limits: How hard to try, and for how long.

    Raises:
        UnreadError: A file could not be had, or came with other content; the message begins with
            its name. The folder holds parts of files then.
        OSError: The disk did not take them.
    """
    try:
        server = find_server(checkout, mode)
    except (NoServerError, OSError, RuntimeError) as error:
        name = next(iter(pointers))
        raise UnreadError(f"{name} is a Git LFS pointer, the file is not here: {error}") from None
    objects = LfsObjects(server, Transport(limits))
    objects.resolve(pointers.values())
    with (
        objects.transport.pool("quantgate-lfs") as pool,
        progress(str(checkout), len(pointers)) as advance,
    ):
        for name, pointer in pointers.items():
            try:
                _download(objects, pointer, into / name, pool)
            except UnreadError as error:
                message = f"{name} is a Git LFS pointer, and its file {error}"
                raise UnreadError(message, status=error.status) from None
            advance(1)


def _download(objects: LfsObjects, pointer: Pointer, path: Path, pool: Executor) -> None:
    """One file, in parts that come at the same time."""
    target = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)

    def part(begin: int) -> None:
        span = (begin, min(begin + PART, pointer.size))
        content = objects.get(pointer, limit=PART, span=span)
        _write(target, content, begin)

    try:
        tasks = [pool.submit(part, begin) for begin in range(0, pointer.size, PART)]
        try:
            for task in as_completed(tasks):
                task.result()
        except RangeIgnoredError:
            _end(tasks)
            objects.save(pointer, partial(_write, target))
        except BaseException:
            # Those under way could take as long as everything may.
            objects.transport.stop()
            raise
        finally:
            _end(tasks)
    finally:
        os.close(target)
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != pointer.oid:
            raise UnreadError(OTHER_CONTENT)


def _end(tasks: Iterable[Future[None]]) -> None:
    """Call off what has not begun, and wait for the rest, which needs the file to be open."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    for task in tasks:
        if not task.cancelled():
            task.exception()


def _write(target: int, content: bytes, at: int) -> None:
    left = memoryview(content)
    while left:
        written = os.pwrite(target, left, at)
        left, at = left[written:], at + written
