"""A child process under limits: what it tells, line by line, and how it ended.

Memory is what the process group holds resident, looked at ten times a second. An address-space
limit (RLIMIT_AS) would not do: vLLM maps weight files as large as they are on disk, and torch
reserves far more than it uses, so a limit that lets a healthy load through stops nothing. A control
group would do, but a runner's container seldom may make one.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quantgate.vllm.children.tracebacks import Tracebacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from quantgate.vllm.children.tracebacks import Raised

LOG_LINES = 20
LOG_LINE = 500
LEFT_BEHIND = ", and could not be ended: it may be stuck in a driver, and still hold the device"
MAX_LINE = 4_000_000
"""Characters of one event; a model's own names cannot make it longer by much."""

_TICK = 0.1
_DIES_WITHIN = 30.0
"""Seconds. A killed process ends at once, unless it waits for a driver that does not answer."""
# proc_pid_status(5): memory of its own and shared memory, without pages of files.
_HELD = re.compile(r"^Rss(Anon|Shmem):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may take.

    Attributes:
        seconds: Wall time of one step: starting up, or one model.
        memory: Bytes resident, of the child and whatever it starts.
    """

    seconds: float = 300.0
    memory: int = 8 << 30


class Stopped(Exception):  # noqa: N818  told as the reason of an unknown outcome
    """The child did not end by itself, or not well. The message continues "the child …".

    Attributes:
        signal: The signal that ended it, where it was not one of ours; else 0.
    """

    def __init__(self, message: str, signal: int = 0) -> None:
        super().__init__(message)
        self.signal = signal


class Child:
    """A process in a group of its own, with a pipe for events and one for its log.

    Use as a context manager: leaving it ends the whole group.

    Attributes:
        peak: The most bytes of memory that the group was seen to hold.
        left_behind: Whether it was killed and did not end, as a process does that is stuck in a
            driver; nobody waits for it any longer.
    """

    def __init__(
        self, command: Sequence[str], limits: Limits, environ: Mapping[str, str], folder: Path
    ) -> None:
        self._limits = limits
        self._log: deque[str] = deque(maxlen=LOG_LINES)
        self._tracebacks = Tracebacks()
        self._rest = {"events": b"", "log": b""}
        self.peak = 0
        self.left_behind = False
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603  the user named the Python
                [*command, str(writing)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                cwd=folder,
                pass_fds=(writing,),
                start_new_session=True,
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._events = reading
        self._selector = selectors.DefaultSelector()
        self._selector.register(reading, selectors.EVENT_READ, "events")
        assert self._process.stdout is not None  # noqa: S101  it was asked for
        self._selector.register(self._process.stdout, selectors.EVENT_READ, "log")

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._selector.close()
        os.close(self._events)
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdout.close()

    @property
    def log(self) -> tuple[str, ...]:
        """The last lines of what it printed, as printed."""
        return tuple(self._log)

    @property
    def raised(self) -> tuple[tuple[Raised, ...], ...]:
        """How processes of vLLM's ended that told it in the log: the exception, its causes first.

        When an event is told, what was logged before it is in here.
        """
        return self._tracebacks.ends

    def lines(self) -> Iterator[str]:
        """The events as they come; ends when the child has ended well.

        Raises:
            Stopped: It ended with an error or signal, or went beyond a limit and was killed.
        """
        deadline = time.monotonic() + self._limits.seconds
        while "events" in {key.data for key in self._selector.get_map().values()}:
            # What was logged before an event is there with it, and may tell what it means.
            ready = [key for key, _ in self._selector.select(_TICK)]
            for key in sorted(ready, key=lambda key: key.data == "events"):
                for line in self._read(key):
                    if key.data == "events":
                        yield line
                        deadline = time.monotonic() + self._limits.seconds
                    else:
                        self._hear(line)
            if time.monotonic() > deadline:
                raise self._stop(f"took longer than {self._limits.seconds:g} seconds")
            held = resident(self._process.pid)
            self.peak = max(self.peak, held)
            if held > self._limits.memory:
                gigabytes = self._limits.memory / (1 << 30)
                raise self._stop(f"took more than {gigabytes:g} GB of memory")
        self._end(deadline)

    def _end(self, deadline: float) -> None:
        """Wait for the end of a child that has closed its events."""
        try:
            code = self._process.wait(max(1.0, min(30.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            raise self._stop("did not end after its last answer") from None
        self._drain()
        if code:
            raise Stopped(_how(code), max(0, -code))

    def _read(self, key: selectors.SelectorKey) -> list[str]:
        """The whole lines that are there now."""
        kind = str(key.data)
        data = os.read(key.fd, 1 << 16)
        if not data:
            self._selector.unregister(key.fileobj)
            data = b"\n" if self._rest[kind] else b""
        *lines, rest = (self._rest[kind] + data).split(b"\n")
        if len(rest) > MAX_LINE:
            if kind == "events":
                raise self._stop("told too long a line")
            rest = rest[:LOG_LINE]
        self._rest[kind] = rest
        return [line.decode("utf-8", "replace") for line in lines]

    def _drain(self) -> None:
        """What is left of the log."""
        for key in list(self._selector.get_map().values()):
            if key.data == "log" and self._selector.select(0):
                for line in self._read(key):
                    self._hear(line)

    def _hear(self, line: str) -> None:
        self._log.append(line[:LOG_LINE])
        self._tracebacks.hear(line)

    def _stop(self, why: str) -> Stopped:
        self.kill()
        self._drain()
        return Stopped(f"{why}{LEFT_BEHIND}" if self.left_behind else why)

    def kill(self) -> None:
        """End the group, whatever is left of it; see `left_behind` for one that does not end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        try:
            self._process.wait(0 if self.left_behind else _DIES_WITHIN)
        except subprocess.TimeoutExpired:
            self.left_behind = True


def _how(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def resident(group: int) -> int:
    """Bytes of memory that the processes of a group hold; 0 where the system does not tell.

    Pages of files count for nothing: they are libraries, and weight files that are mapped by every
    rank, which the system drops when it needs the room. Of shared memory, what the process counts
    that has most of it: ranks share it with each other, and the sum would count a page once for
    each. Where they share with others than all, that is too little: a limit is then late, but no
    sound model is ended for memory that nobody holds. What each page is shared by is known to the
    system (smaps_rollup), but to ask costs a walk through all pages, ten times a second.
    """
    own, shared = 0, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name, in parentheses, may contain anything; after it: state, parent, group.
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group:
                status = stat.with_name("status").read_text(encoding="utf-8", errors="replace")
                held = {kind: int(kilobytes) << 10 for kind, kilobytes in _HELD.findall(status)}
                own += held.get("Anon", 0)
                shared = max(shared, held.get("Shmem", 0))
    return own + shared
