"""Which cases are asked: every healthy one, and a random choice of the broken ones."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.truth.families import FAMILIES
from benchmarks.truth.faults import FAULTS
from benchmarks.truth.methods import METHODS, build
from tests.support.build import write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEALTHY = ""
# Where the formats of newer GPUs are taken; everything else is asked on sm90.
_NEWER = ("nvfp4",)


@dataclass(frozen=True)
class Asked:
    """One checkpoint, written, and the GPU that it is asked for.

    `fault` is empty for a healthy one.
    """

    family: str
    method: str
    fault: str
    module: str
    folder: Path

    @property
    def gpu(self) -> str:
        """The GPU of the target."""
        return "sm100" if any(word in self.method for word in _NEWER) else "sm90"

    @property
    def name(self) -> str:
        """What tells it from the others."""
        return " ".join(filter(None, (self.family, self.method, self.fault, self.module)))


def sample(broken: int, seed: int, folder: Path) -> Iterator[Asked]:
    """Write the healthy cases and `broken` others; the same seed gives the same ones."""
    for family in FAMILIES:
        for method in METHODS:
            yield _write(Asked(family, method, HEALTHY, "", folder / f"{family}--{method}"))
    chance = random.Random(seed)
    kinds = [(f, m, x) for f in FAMILIES for m in METHODS for x in FAULTS]
    chance.shuffle(kinds)
    left = broken
    for family, method, fault in kinds:
        if not left:
            return
        module = chance.choice(sorted(FAMILIES[family].linears))
        path = folder / f"{family}--{method}--{fault}"
        asked = _write(Asked(family, method, fault, module, path))
        if asked.folder.exists():
            left -= 1
            yield asked


def _write(asked: Asked) -> Asked:
    """Write the model, unless the fault does not apply to it."""
    case = build(FAMILIES[asked.family], asked.method)
    if asked.fault == HEALTHY or FAULTS[asked.fault](case, asked.module):
        files = {"model.safetensors": case.tensors}
        write_checkpoint(asked.folder, case.config, files, case.sides)
    return asked
