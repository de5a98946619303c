"""RFC 6902 operations on the text of a JSON file; what they do not touch stays as it is.

Serialising the whole value again would rewrite numbers, arrays on one line and escapes all over
the file, and bury the one line that matters in the diff.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from quantgate.checkpoint.documents import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SPACE = re.compile(r"[ \t\r\n]*")
_UNIT = re.compile(r"\{\r?\n([ \t]+)\"")
_MARGIN = re.compile(r"[ \t]*")
_DECODER = json.JSONDecoder()
MAX_WORK = 100_000_000  # characters times operations; beyond, the value is serialised anew


class _Member(NamedTuple):
    """A member of an object or array: offsets of its begin (the key), its value and its end."""

    key: str
    begin: int
    value: int
    end: int


def edited_text(text: str, operations: Sequence[Mapping[str, Any]], wanted: Any) -> str:
    """The text after the operations.

    Args:
        text: A JSON document that `parse_json` accepts.
        operations: What to do; each applies.
        wanted: The value after them, which the new text is held against.
    """
    new: str | None = text
    if len(text) * len(operations) > MAX_WORK:
        new = None
    for operation in operations:
        new = None if new is None else _edited(new, operation)
    if new is not None and json.dumps(parse_json(new.encode()), default=repr) == json.dumps(wanted):
        return new
    # A key that stands twice, or a text too large to look through so often.
    end = "\n" if text.endswith("\n") else ""
    return json.dumps(wanted, indent=_unit(text), ensure_ascii=text.isascii()) + end


@lru_cache(maxsize=1024)  # many findings point at the same key of a config that may be large
def line_of(text: str, pointer: str) -> int:
    """The line, from 1, of the deepest key that a JSON pointer finds in a document.

    0 where the text is not JSON or has not even the first key.
    """
    steps = [s.replace("~1", "/").replace("~0", "~") for s in pointer.split("/")[1:]]
    found = -1
    try:
        begin = _skip(text, 0)
        for step in steps:
            members = _members(text, begin)
            if text[begin] == "[":
                index = int(step) if step.isascii() and step.isdigit() else len(members)
                member = members[index] if index < len(members) else None
            else:
                member = next((m for m in reversed(members) if m.key == step), None)
            if member is None:
                break
            found, begin = member.begin, member.value
    except (ValueError, IndexError, RecursionError):
        return 0
    return text.count("\n", 0, found) + 1 if found >= 0 else 0


def _unit(text: str) -> str | None:
    """What one level is indented by, None for a file without line ends."""
    match = _UNIT.search(text)
    return match[1] if match else None


def _edited(text: str, operation: Mapping[str, Any]) -> str | None:
    """One add, replace or remove; None for a place that is not there."""
    steps = [s.replace("~1", "/").replace("~0", "~") for s in operation["path"].split("/")[1:]]
    begin = _skip(text, 0)
    for step in steps[:-1]:
        member = _find(text, begin, step)
        if member is None:
            return None
        begin = member.value
    last, op = steps[-1], operation["op"]
    if text[begin] == "[":
        return (
            _appended(text, begin, "", operation["value"]) if (op, last) == ("add", "-") else None
        )
    found = _find(text, begin, last)
    if op == "remove":
        return None if found is None else _removed(text, begin, found)
    if found is None:
        return _appended(text, begin, f"{_dump(text, last)}: ", operation["value"])
    value = _dump(text, operation["value"], _margin(text, found.begin))
    return text[: found.value] + value + text[found.end :]


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _members(text: str, begin: int) -> list[_Member]:
    """The members of the object or array at `begin`; empty for anything else."""
    members: list[_Member] = []
    if text[begin] not in "{[":
        return members
    at = _skip(text, begin + 1)
    while text[at] not in "}]":
        start, key = at, ""
        if text[begin] == "{":
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        end = _DECODER.raw_decode(text, at)[1]
        members.append(_Member(key, start, at, end))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return members


def _find(text: str, begin: int, key: str) -> _Member | None:
    if text[begin] != "{":
        return None
    return next((m for m in reversed(_members(text, begin)) if m.key == key), None)


def _appended(text: str, begin: int, key: str, value: Any) -> str:
    members = _members(text, begin)
    if members:
        last = members[-1]
        before = members[-2].end + 1 if len(members) > 1 else begin + 1
        gap = text[_skip_back(text, last.begin, before) : last.begin] or " "
        margin = gap.rpartition("\n")[2] if "\n" in gap else _margin(text, begin)
        return f"{text[: last.end]},{gap}{key}{_dump(text, value, margin)}{text[last.end :]}"
    close = _skip(text, begin + 1)
    unit = _unit(text)
    if unit is None:
        return text[: begin + 1] + key + _dump(text, value) + text[close:]
    outer = _margin(text, begin)
    inner, line = outer + unit, _line_end(text)
    new = f"{line}{inner}{key}{_dump(text, value, inner)}{line}{outer}"
    return text[: begin + 1] + new + text[close:]


def _skip_back(text: str, at: int, least: int) -> int:
    while at > least and text[at - 1] in " \t\r\n":
        at -= 1
    return at


def _removed(text: str, begin: int, gone: _Member) -> str:
    members = _members(text, begin)
    index = members.index(gone)
    if index:
        return text[: members[index - 1].end] + text[gone.end :]
    if len(members) > 1:
        return text[: gone.begin] + text[members[1].begin :]
    return text[: begin + 1] + text[_skip(text, gone.end) :]


def _margin(text: str, at: int) -> str:
    """The white space that the line of this offset begins with."""
    match = _MARGIN.match(text, text.rfind("\n", 0, at) + 1)
    return match[0] if match else ""


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _dump(text: str, value: Any, margin: str = "") -> str:
    """A value in the manner of the file, its further lines indented by `margin`."""
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=text.isascii()).split("\n")
    return (_line_end(text) + margin).join(lines)
