"""Writes the facts of many releases so that what does not change is there once.

`<release>.json` holds what belongs to a release alone. `architectures.json`, `classes.json` and
`methods.json` are histories: one line per record, keyed by its name and the first release that
has it so (`"LlamaForCausalLM 0.30.0"`). It holds for the releases after that, up to the next
line of the same name; null says that the release no longer has it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tools.vllm_extract.extract import Extracted
    from tools.vllm_extract.values import Json

HISTORIES: Final = ("architectures", "classes", "methods")
ABSENT: Final = "null"
# The records of one kind as JSON text, by release, then by name.
Releases = dict[str, dict[str, str]]


def version(release: str) -> tuple[int, ...]:
    """A release as numbers, for sorting."""
    return tuple(int(part) for part in release.split("."))


def packed(extracted: Extracted, folder: Path) -> dict[str, str]:
    """File name → text of each file that changes when this release joins those in `folder`."""
    releases = {path.stem for path in folder.glob("[0-9]*.json")} | {extracted.release}
    ordered = sorted(releases, key=version)
    files = {f"{extracted.release}.json": _lines(extracted.common, depth=2)}
    for kind in HISTORIES:
        path = folder / f"{kind}.json"
        old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        known = _expand(old, ordered)
        records: Mapping[str, Json] = getattr(extracted, kind)
        known[extracted.release] = {name: _text(r) for name, r in records.items() if r}
        files[f"{kind}.json"] = _history(known)
    return files


def _expand(history: dict[str, Json], releases: list[str]) -> Releases:
    out: Releases = {release: {} for release in releases}
    for key, record in history.items():  # in the order of releases, for each name
        name, since = key.split(" ")
        for release in releases:
            if version(release) >= version(since):
                out[release][name] = ABSENT if record is None else _text(record)
    return {
        release: {name: text for name, text in records.items() if text != ABSENT}
        for release, records in out.items()
    }


def _history(releases: Releases) -> str:
    lines: list[str] = []
    for name in sorted({name for records in releases.values() for name in records}):
        last = ABSENT
        for release, records in releases.items():
            text = records.get(name, ABSENT)
            if text != last:
                lines.append(f"{json.dumps(f'{name} {release}')}: {text}")
            last = text
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _text(record: Json) -> str:
    """One line, keys sorted; what is inside keeps its order, which matters in a mapper."""
    ordered = {key: record[key] for key in sorted(record)}
    return json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))


def _lines(value: Json, depth: int) -> str:
    """Readable JSON: keys sorted and a line each down to `depth`, compact below."""

    def render(part: Json, level: int, indent: str) -> str:
        if level and isinstance(part, dict) and part:
            inner = f"{indent}  "
            rows = [
                f"{inner}{json.dumps(k)}: {render(part[k], level - 1, inner)}" for k in sorted(part)
            ]
            return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
        return json.dumps(part, ensure_ascii=False, separators=(", ", ": "))

    return render(value, depth, "") + "\n"
