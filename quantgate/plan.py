"""Spread models over jobs: GitHub Actions runs them side by side, each with an equal share.

What a check costs grows with the headers, so these are weighed: one read of eight bytes per weight
file, and of models on the Hub what the header cache knows. Nothing is fetched.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from quantgate.checkpoint.header import MAX_HEADER
from quantgate.checkpoint.raw import WEIGHT_SUFFIX
from quantgate.checkpoint.sources import is_hub_id

if TYPE_CHECKING:
    from collections.abc import Sequence

# What a model costs however small it is, in bytes of header that take as long.
BASE_COST = 20_000


@dataclass(frozen=True, slots=True)
class Share:
    """The models of one job, in the order of the request, and the bytes of their headers."""

    models: tuple[str, ...]
    cost: int


def plan(models: Sequence[str], jobs: int) -> tuple[Share, ...]:
    """At most `jobs` shares of about equal cost, none of them empty.

    The largest model goes first, each to the job with the least to do; of equal ones, the first
    in the request. Equal requests give equal plans.
    """
    known = {m: header_bytes(m) for m in models}
    sizes = list(filter(None, known.values()))
    usual = int(median(sizes)) if sizes else 0
    costs = {m: BASE_COST + (size or usual) for m, size in known.items()}
    heap = [(0, number) for number in range(min(jobs, len(costs)))]
    taken: list[list[str]] = [[] for _ in heap]
    order = {model: number for number, model in enumerate(costs)}
    for model in sorted(costs, key=lambda m: (-costs[m], order[m])):
        cost, number = heap[0]
        taken[number].append(model)
        heapq.heapreplace(heap, (cost + costs[model], number))
    return tuple(
        Share(tuple(sorted(share, key=order.__getitem__)), sum(costs[m] for m in share))
        for share in taken
    )


def header_bytes(source: str) -> int:
    """Bytes of the headers of a folder, an archive or a kept model of the Hub; 0 if not known."""
    path = Path(source)
    try:
        if path.is_file():
            return path.stat().st_size
        if is_hub_id(source):
            # The client of the Hub takes longer to import than most plans to make.
            from quantgate.checkpoint.hub import kept_header_bytes  # noqa: PLC0415

            return kept_header_bytes(source)
        return sum(map(_header, path.glob(f"*{WEIGHT_SUFFIX}")))
    except OSError:
        return 0


def _header(file: Path) -> int:
    if not file.is_file():
        return 0
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
    return length if length <= MAX_HEADER else 0  # a Git LFS pointer, or no safetensors file


def can_be_handed_on(model: str) -> bool:
    """Whether a name is the same after its way through the lines of an input, which are stripped.

    Otherwise another model would be checked in its place.
    """
    return model.isprintable() and model == model.strip() != ""


def matrix(shares: Sequence[Share]) -> str:
    """The plan as `strategy.matrix` takes it: one job each, with its number and its models."""
    jobs = [
        {"job": number, "of": len(shares), "models": "\n".join(share.models)}
        for number, share in enumerate(shares, start=1)
    ]
    return json.dumps({"include": jobs}, ensure_ascii=True)
