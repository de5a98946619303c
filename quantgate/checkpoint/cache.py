"""What was read of remote models, kept on disk: listings by commit, documents and headers by oid.

Both name what they stand for for ever, so nothing in here grows old; what was not used for longest
is removed when it becomes too much. An entry that was damaged is none.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE: Final = "QUANTGATE_CACHE"
MAX_SIZE: Final = 512_000_000
"""Bytes that the cache may take; a model of 178,000 tensors takes 45 MB."""

_DIGEST = hashlib.sha256().digest_size  # before each entry
_OFF = frozenset({"0", "off", "no", "none"})


class Cache:
    """A folder of entries, or nothing at all. Errors of the disk are misses."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, *key: str) -> bytes | None:
        """The entry under this key, None if there is none."""
        path = self._path(key)
        if path is None:
            return None
        try:
            content = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        digest, entry = content[:_DIGEST], content[_DIGEST:]
        return entry if hashlib.sha256(entry).digest() == digest else None

    def size(self, *key: str) -> int:
        """Bytes of the entry under this key, unread; 0 if there is none."""
        path = self._path(key)
        try:
            return max(0, path.stat().st_size - _DIGEST) if path else 0
        except OSError:
            return 0

    def put(self, entry: bytes, *key: str) -> None:
        """Keep an entry; it is there in full or not at all."""
        path = self._path(key)
        if path is None:
            return
        with suppress(OSError):
            # Headers of private models: for nobody else on this machine.
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent)
            try:
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(hashlib.sha256(entry).digest())
                    stream.write(entry)
                Path(temporary).replace(path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise

    def prune(self, most: int = MAX_SIZE) -> None:
        """Remove the entries that were not used for longest until the rest fits."""
        if self._folder is None:
            return
        with suppress(OSError):
            entries = [(p, p.stat()) for p in self._folder.iterdir() if p.is_file()]
            entries.sort(key=lambda e: e[1].st_mtime)
            total = sum(stat.st_size for _, stat in entries)
            for path, stat in entries:
                if total <= most:
                    break
                path.unlink(missing_ok=True)
                total -= stat.st_size

    def _path(self, key: tuple[str, ...]) -> Path | None:
        return self._folder and self._folder / hashlib.sha256("\0".join(key).encode()).hexdigest()


def default_cache(environ: Mapping[str, str] = os.environ) -> Cache:
    """The user's cache: `$QUANTGATE_CACHE` (a folder, or `off`), else quantgate in `~/.cache`."""
    wanted = environ.get(VARIABLE, "").strip()
    if wanted.lower() in _OFF:
        return Cache(None)
    if wanted:
        return Cache(Path(wanted))
    try:
        base = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return Cache(None)
    return Cache(base / "quantgate")
