"""RFC 6902 operations on config.json as lines of a diff that a person can apply by hand.

The report does not hold the config itself, so a line names the key by its path instead of
showing the text around it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from quantgate.report.as_json import plain_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def _key(pointer: object) -> str:
    """A JSON pointer as people write keys: `/a/b~1c/0` → `a.b/c[0]`."""
    parts = str(pointer).split("/")[1:]
    text = ""
    for part in parts:
        name = part.replace("~1", "/").replace("~0", "~")
        if name.isascii() and name.isdigit():
            text += f"[{name}]"
        else:
            text += f".{name}" if text else name
    return text


def _assign(sign: str, path: str, value: Any) -> list[str]:
    """`+ a.b = 1`, or `+ a.b: append 1` where the path ends in `-`."""
    array, _, last = path.rpartition("/")
    appends = last == "-" and bool(array)
    key = f"{_key(array)}: append" if appends else f"{_key(path) or 'config.json'} ="
    first, *rest = json.dumps(plain_value(value), indent=2).split("\n")
    return [f"{sign} {key} {first}", *(f"{sign}   {line}" for line in rest)]


def _lines(operations: Iterable[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = []
    known: dict[str, Any] = {}
    for op in operations:
        path = str(op.get("path", ""))
        key = _key(path) or "config.json"
        kind = op.get("op")
        if kind == "test":
            known[path] = op.get("value")
            continue
        before = _assign("-", path, known[path]) if path in known else [f"- {key}"]
        match kind:
            case "add":
                lines += _assign("+", path, op.get("value"))
            case "replace":
                lines += [*before, *_assign("+", path, op.get("value"))]
            case "remove":
                lines += before
            case "move" | "copy":
                source = _key(op.get("from", ""))
                lines += [f"- {source}"] if kind == "move" else []
                lines += [f"+ {key} = (the value of {source})"]
            case _:
                lines += [f"# {json.dumps(plain_value(op))}"]
    return lines


def diff_lines(patches: Sequence[Sequence[Mapping[str, Any]]], limit: int) -> list[str]:
    """The patches as lines, equal ones once; beyond `limit` lines a count of the rest."""
    if limit <= 0:
        return []
    unique = {repr(p): p for p in patches if p}
    lines = [line for patch in unique.values() for line in _lines(patch)]
    if len(lines) <= limit:
        return lines
    return [*lines[: limit - 1], f"# and {len(lines) - limit + 1:,} more lines"]
