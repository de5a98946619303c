"""How many elements a set of strided views covers together, each element counted once.

A copy into `weight[0:64]` and one into `weight[64:128]` cover a fused weight; two copies into the
same half do not, although as many elements were written.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    # offset, shape and stride in elements, as torch gives them
    Region = tuple[int, tuple[int, ...], tuple[int, ...]]

MAX_RUNS = 4_000_000
"""Contiguous runs that are looked at one by one; more of them count as not overlapping."""


class _Runs(NamedTuple):
    """`length` elements in one piece, repeated over the outer dimensions (size, stride)."""

    begin: int
    length: int
    outer: tuple[tuple[int, int], ...]

    @property
    def end(self) -> int:
        return self.begin + sum((size - 1) * stride for size, stride in self.outer) + self.length

    @property
    def pieces(self) -> int:
        return prod(size for size, _ in self.outer)

    @property
    def elements(self) -> int:
        return self.pieces * self.length

    @property
    def overlaps_itself(self) -> bool:
        """Whether an element is in several runs, as in a sliding window."""
        extent = self.length
        for size, stride in reversed(self.outer):
            if stride < extent:
                return True
            extent += (size - 1) * stride
        return False

    def each(self) -> Iterator[tuple[int, int]]:
        starts = [self.begin]
        for size, stride in self.outer:
            starts = [s + i * stride for s in starts for i in range(size)]
        return ((s, s + self.length) for s in starts)


def covered(regions: Iterable[Region]) -> int:
    """The number of distinct elements in any of the regions of one storage."""
    todo = sorted(filter(None, map(_runs, regions)))
    total = 0
    group: list[_Runs] = []
    end = 0
    for runs in todo:
        if group and runs.begin >= end:
            total += _union(group)
            group = []
        group.append(runs)
        end = max(end, runs.end) if len(group) > 1 else runs.end
    return total + _union(group)


def _runs(region: Region) -> _Runs | None:
    offset, shape, strides = region
    if 0 in shape:
        return None
    dims = sorted(
        ((n, s) for n, s in zip(shape, strides) if n > 1 and s),  # noqa: B905  Python 3.10
        key=lambda d: d[1],
    )
    length = 1
    while dims and dims[0][1] == length:
        length *= dims.pop(0)[0]
    return _Runs(offset, length, tuple(reversed(dims)))


def _union(group: list[_Runs]) -> int:
    """The elements of regions whose extents overlap."""
    if not group:
        return 0
    most = sum(r.elements for r in group)
    if len(group) == 1 and not group[0].overlaps_itself:
        return most
    if sum(r.pieces for r in group) > MAX_RUNS:
        return min(most, max(r.end for r in group) - group[0].begin)
    total, reached = 0, -1
    for begin, end in sorted(run for runs in group for run in runs.each()):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total
