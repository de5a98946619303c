"""The exceptions that processes of vLLM's log before they end, read from the lines of a log.

With several ranks the process that was started hears only that another one failed; what it was is
a traceback in the log, of which each line begins with the process, as in
`(Worker_TP1 pid=7) ERROR 11-30 14:04:53 [multiproc_executor.py:953] KeyError: 'lm_head'`
(vLLM 0.32.0, v1/executor/multiproc_executor.py and logging_utils/formatter.py), so that those of
several processes are told apart however their lines are mixed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_RECORDS = 32
MAX_EXCEPTIONS = 8
MAX_MESSAGE = 2000

_COLOR = re.compile(r"\x1b\[[\d;]*m")
_PREFIX = re.compile(r"(?:\([^()]*pid=\d+\) ?)*(?:[A-Z]+ [\d:. -]+ \[[^\[\]]+\] ?)?")
_START = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s+File "([^"]+)", line (\d+), in (\S+)')
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?$")
_BETWEEN = ("The above exception was", "During handling of the above")
# What a process of vLLM's does all its life. Tracebacks that do not come through here are of
# something that vLLM does without, or of a process that ends.
_MAIN = frozenset(
    (
        *("worker_main", "worker_busy_loop", "_execute_worker_rpc", "enqueue_output"),
        *("run_engine_core", "run_busy_loop"),
    )
)


@dataclass(slots=True)
class Raised:
    """One exception as a log tells it.

    Attributes:
        exception: Its class, without the module.
        message: What it says.
        where: The innermost line of vLLM's, such as `linear.py:412`; may be empty.
        functions: The functions that it came through, the outermost first.
    """

    exception: str = ""
    message: str = ""
    where: str = ""
    functions: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Record:
    """What one record of a log tells, the causes first."""

    raised: list[Raised] = field(default_factory=list)
    current: Raised | None = None
    is_main: bool = False

    def hear(self, text: str, *, more: bool) -> None:
        """Take the next line, where `more` of a message may follow."""
        if text.startswith(_START):
            self.current = Raised() if len(self.raised) < MAX_EXCEPTIONS else None
        elif self.current is None:
            pass
        elif self.current.exception:
            self._message(text, more=more)
        elif (frame := _FRAME.match(text)) is not None:
            path, line, function = frame.groups()
            if "/vllm/" in path:
                self.current.where = f"{path.rpartition('/')[2]}:{line}"
                self.is_main |= function in _MAIN
            self.current.functions.append(function)
            del self.current.functions[:-100]
        elif text and not text[0].isspace():
            self._exception(text)

    def _exception(self, text: str) -> None:
        found = _EXCEPTION.match(text)
        if self.current is None or found is None:
            self.current = None
            return
        self.current.exception = found[1].rpartition(".")[2]
        self.current.message = (found[2] or "")[:MAX_MESSAGE]
        self.raised.append(self.current)

    def _message(self, text: str, *, more: bool) -> None:
        if self.current is None or not more or text.startswith(_BETWEEN):
            self.current = None
        elif len(self.current.message) + len(text) < MAX_MESSAGE:
            self.current.message = f"{self.current.message}\n{text}".rstrip()


class Tracebacks:
    """Listens to a log, and keeps the first exceptions that ended processes of vLLM's."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def hear(self, line: str) -> None:
        """Take the next line of the log."""
        line = _COLOR.sub("", line[: 2 * MAX_MESSAGE]).rstrip()
        prefix = _PREFIX.match(line)
        assert prefix is not None  # noqa: S101  it matches nothing at all, too
        # The prefix of an empty line has lost its last blank.
        key, text = prefix[0].rstrip(), line[prefix.end() :]
        if key not in self._records:
            if not text.startswith(_START) or not self._has_room():
                return
            self._records[key] = _Record()
        # Without a prefix nobody knows whose the next line is.
        self._records[key].hear(text, more=bool(key))

    def _has_room(self) -> bool:
        if len(self._records) < MAX_RECORDS:
            return True
        other = next((k for k, r in self._records.items() if not r.is_main), None)
        if other is not None:
            del self._records[other]
        return other is not None

    @property
    def ends(self) -> tuple[tuple[Raised, ...], ...]:
        """For each process that told how it ended, its exception last, after its causes."""
        return tuple(tuple(r.raised) for r in self._records.values() if r.is_main and r.raised)
