"""Smoke loads of real quantized weights, sound and ruined: `python -m benchmarks.smoke PYTHON`.

A tiny model is trained, quantized by us and loaded in the vLLM of PYTHON, on whatever device that
finds; what it prints is the table of docs/fidelity.md. On a GPU, NVFP4 takes part.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quantgate.vllm.smoke import Settings, smoke_load
from tests.support.quantize import METHODS, RUINS, quantized, ruined, write
from tests.support.trained import trained

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.vllm.smoke import SmokeLoad

SOUND = "sound"
OF_GPUS = ("nvfp4a16",)
"""Methods that vLLM's CPU platform has no kernels for."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One model: how it was quantized, what was ruined, and the answer."""

    method: str
    ruin: str
    load: SmokeLoad

    @property
    def kernel(self) -> str:
        """The kernels of its projections."""
        kernels = {c.kernel for c in self.load.layers if "_proj" in c.layers}
        return ", ".join(sorted(filter(None, kernels)))


def models(base: Path, folder: Path, method: str) -> Iterator[tuple[str, Path]]:
    """The sound model of a method and the ruined ones, all with the same headers."""
    config, values = quantized(base, method)
    yield SOUND, write(folder / f"{method}-sound", config, values, base)
    for number, ruin in enumerate(RUINS):
        yield ruin, write(folder / f"{method}-{number}", config, ruined(values, ruin), base)


def tried(base: Path, folder: Path, settings: Settings) -> Iterator[Tried]:
    """Every method with every ruin, beside the unquantized base."""
    for method in METHODS:
        if settings.device == "cpu" and method in OF_GPUS:
            continue
        made = dict(models(base, folder, method))
        run = smoke_load([str(p) for p in made.values()], settings, reference=str(base))
        yield from (Tried(method, r, load) for r, load in zip(made, run.results, strict=True))


def row(item: Tried) -> str:
    """A line of the table."""
    load = item.load
    figures = dict(load.compared)
    cells = [
        item.method,
        item.ruin,
        load.outcome.value,
        *(
            f"{figures[k]:,.2f}" if k in figures else "–"
            for k in ("perplexity", "KL divergence, at least")
        ),
        item.kernel or "–",
    ]
    return f"| {' | '.join(cells)} |"


def main(python: str, device: str = "auto", base: str = "") -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(base) if base else trained(python, Path(scratch, "trained"))
        settings = Settings(vllm_python=python, device=device)
        for number, item in enumerate(tried(model, Path(scratch, "models"), settings)):
            if not number:
                print(f"{item.load.target} {item.load.device} ({item.load.libraries})\n")
                print("| Method | Weights | Outcome | Perplexity | KL at least | Kernel |")
                print("|---|---|---|---|---|---|")
            print(row(item), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
