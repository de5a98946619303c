"""The quant map: which module kinds are stored how, over the layers, in a few lines.

One looks instead of reading: mixed precision and the odd dense layer stand out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LAYER = re.compile(r"^(.*?(?:layers|h|blocks))\.(\d+)\.(.+)$")
_EXPERT = re.compile(r"\.\d+(?=\.)")
MAX_ROWS = 24


@dataclass(frozen=True, slots=True)
class MapRow:
    """One line: kinds that are stored alike, and the scheme of each range of layers.

    `runs` are (first layer, last layer, label); for modules outside the layers a single run with
    layers of -1.
    """

    kinds: tuple[str, ...]
    runs: tuple[tuple[int, int, str], ...]

    @property
    def text(self) -> str:
        """The runs as text: `0-3 bf16, 4-31 int4 g128`."""
        return ", ".join(_run(first, last, label) for first, last, label in self.runs)


def _run(first: int, last: int, label: str) -> str:
    if first < 0:
        return label
    return f"{first} {label}" if first == last else f"{first}-{last} {label}"


def quant_map(labels: Iterable[tuple[str, str]]) -> tuple[MapRow, ...]:
    """The map of (module, label) pairs; at most `MAX_ROWS` lines, in order of appearance.

    Experts count as one kind; where they differ within a layer their labels are joined.
    """
    cells: dict[str, dict[int, dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    outside: dict[str, str] = {}
    for module, label in labels:
        match = _LAYER.match(module)
        if match is None:
            outside[module] = label
            continue
        kind = f"{match[1]}.*.{_EXPERT.sub('.*', match[3])}"
        cells[kind][int(match[2])].setdefault(label)
    rows: dict[tuple[tuple[int, int, str], ...], list[str]] = defaultdict(list)
    for kind, layers in cells.items():
        rows[_runs({i: " / ".join(labels) for i, labels in layers.items()})].append(kind)
    for module, label in outside.items():
        rows[((-1, -1, label),)].append(module)
    return tuple(MapRow(tuple(kinds), runs) for runs, kinds in rows.items())[:MAX_ROWS]


def _runs(labels: Mapping[int, str]) -> tuple[tuple[int, int, str], ...]:
    """Layers in a row with the same label, as one run; a gap ends it."""
    found = []
    ordered = sorted(labels.items())
    for (_, label), group in groupby(
        enumerate(ordered), key=lambda item: (item[1][0] - item[0], item[1][1])
    ):
        numbers = [i for _, (i, _) in group]
        found.append((numbers[0], numbers[-1], label))
    return tuple(found)
