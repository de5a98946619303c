"""Writing one file of a model folder: whole or not at all, and never without a copy of the old."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

MAX_BACKUPS = 1000


class WriteError(Exception):
    """The file was not written. The message is one sentence for the user."""


def write_file(folder: str | Path, name: str, before: bytes, after: bytes) -> str:
    """Replace the content of a file and keep the old one beside it.

    Args:
        folder: The model folder.
        name: A file directly in it.
        before: What was read and checked; a file that holds something else by now is left alone.
        after: The new content.

    Returns:
        The name of the backup: `config.json.bak`, or with a number if there is one already.

    Raises:
        WriteError: The file is a link that leads out of the folder, was changed meanwhile, or the
            system refuses. Then the file is as it was.
    """
    try:
        path = _inside(Path(folder), name)
        if path.read_bytes() != before:
            raise WriteError(f"{name} was changed while it was checked; nothing is written.")
        mode = stat.S_IMODE(path.stat().st_mode)
        backup = _backup(path, before, mode)
        try:
            _replace(path, after, mode)
        except OSError:
            backup.unlink(missing_ok=True)
            raise
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise WriteError(f"{name} cannot be written: {reason}.") from None
    return backup.name


def _inside(folder: Path, name: str) -> Path:
    """The real file behind the name."""
    real = (folder / name).resolve(strict=True)
    if not real.is_relative_to(folder.resolve(strict=True)):
        # Also the Hub's cache: its files are shared by every revision that has them.
        raise WriteError(
            f"{name} is a link that leads out of the folder; copy the model before it is changed."
        )
    if not stat.S_ISREG(real.stat().st_mode):
        raise WriteError(f"{name} is not a regular file.")
    return real


def _backup(path: Path, content: bytes, mode: int) -> Path:
    """Write the copy under a name that is free; the system itself refuses one that is taken."""
    for number in range(MAX_BACKUPS):
        backup = path.with_name(f"{path.name}.bak" + (f".{number}" if number else ""))
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as stream:
            _put(stream.fileno(), content)
        return backup
    raise WriteError(f"{path.name} has {MAX_BACKUPS} backups already; nothing is written.")


def _replace(path: Path, content: bytes, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            _put(stream.fileno(), content)
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _put(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)
