"""The change of one JSON file as a unified diff, in lines that are safe to show."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.documents import parse_json
from quantgate.report.config_diff import diff_lines
from quantgate.report.inert import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_LINES = 600
WIDTH = 300
_CONTEXT = 3
_MAX_CHANGED = 4000  # lines between the first and the last change; more take difflib too long


def file_diff(
    name: str, before: str, after: str, operations: Sequence[Mapping[str, Any]]
) -> list[str]:
    """A unified diff; a file without line ends is compared as if it had them."""
    old, new = _lines(before), _lines(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    skip, rest = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    old, new = old[skip : len(old) - rest], new[skip : len(new) - rest]
    if max(len(old), len(new)) > _MAX_CHANGED:
        lines = [f"--- {name}", f"+++ {name}", *diff_lines([operations], MAX_LINES)]
    else:
        diff = difflib.unified_diff(old, new, name, f"{name} (fixed)", n=_CONTEXT, lineterm="")
        lines = [_moved(line, skip) for line in diff]
    shown = [plain(line, WIDTH) for line in lines[:MAX_LINES]]
    more = len(lines) - len(shown)
    return [*shown, f"# and {more:,} more lines"] if more > 0 else shown


def _lines(text: str) -> list[str]:
    if "\n" not in text.strip():
        text = json.dumps(parse_json(text.encode()), indent=2, default=repr)
    return text.replace("\r\n", "\n").split("\n")


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))


def _moved(line: str, skip: int) -> str:
    """The head of a hunk with the numbers of the whole file."""
    if not skip or not line.startswith("@@ "):
        return line
    _, minus, plus, _ = line.split(" ")
    ranges = [
        f"{r[0]}{int(a) + skip}{comma}{b}"
        for r in (minus, plus)
        for a, comma, b in [r[1:].partition(",")]
    ]
    return f"@@ {ranges[0]} {ranges[1]} @@"
