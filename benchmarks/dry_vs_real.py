"""The dry load on the CPU platform beside real loads: `python -m benchmarks.dry_vs_real PYTHON`.

The same tiny checkpoints, healthy and broken, go through both. A real load is held against the
healthy twin: if it loads and its probabilities differ, it is silently wrong.
"""

from __future__ import annotations

import copy
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from quantgate.vllm.dry_load import CPU, dry_load
from quantgate.vllm.smoke import Settings, SmokeOutcome, Thresholds, smoke_load
from tests.support.faults import ANY, OF_METHOD
from tests.support.quantize import Values, quantized, write
from tests.support.trained import trained

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from quantgate.vllm.smoke import SmokeLoad

HEALTHY = "healthy"
METHODS = ("gptq", "awq", "pack")
FULL = "pack"
"""The method that gets every fault; the others get their own ones."""

# Equal models compute equal numbers here: what differs at all is wrong.
_EXACT = Thresholds(perplexity=1e9, repetition=1.0, ratio=1.001, divergence=1e-4)
_TEXT = "The sun had set behind the hills when the old man reached the village."


@dataclass(frozen=True, slots=True)
class Compared:
    """One case: what both say (`loads`, `fails`, `silent`, `unknown`), and why."""

    name: str
    dry: str
    real: str
    why: str


def faults(method: str) -> dict[str, object]:
    """The faults that a method is tried with."""
    return {**(ANY if method == FULL else {}), **OF_METHOD[method]}


CASES = [f"{method}: {fault}" for method in METHODS for fault in (HEALTHY, *faults(method))]


def compare(
    base: Path, folder: Path, python: str, cases: Container[str] = CASES
) -> Iterator[Compared]:
    """Both loads of the cases and of the healthy models; models are written beneath `folder`."""
    settings = replace(
        Settings(vllm_python=python, device="cpu", text=_TEXT, prompts=(_TEXT,), max_tokens=2),
        thresholds=_EXACT,
    )
    for method in METHODS:
        models = {
            name: str(path)
            for name, path in _models(base, folder, method)
            if name == HEALTHY or f"{method}: {name}" in cases
        }
        dry = dry_load(list(models.values()), gpu=CPU, vllm_python=python).results
        healthy = models[HEALTHY]
        real = smoke_load(list(models.values()), settings, reference=healthy).results
        for name, one, other in zip(models, dry, real, strict=True):
            why = one.message or ", ".join(s.kind for s in one.silent) or one.reason
            yield Compared(
                f"{method}: {name}",
                one.outcome.value,
                "loads" if other.outcome is SmokeOutcome.WORKS else other.outcome.value,
                f"{why.strip()[:100]} | {_why(other)[:100]}",
            )


def _why(load: SmokeLoad) -> str:
    return (load.message or "; ".join(load.complaints) or load.reason).strip()


def _models(base: Path, folder: Path, method: str) -> Iterator[tuple[str, Path]]:
    config, values = quantized(base, method)
    for number, (name, change) in enumerate({HEALTHY: None, **faults(method)}.items()):
        mine, tensors = copy.deepcopy(config), Values(values)
        if change is not None:
            change(mine, tensors, method)  # type: ignore[operator]
        yield name, write(folder / f"{method}-{number}", mine, tensors, base)


def main(python: str, base: str = "") -> None:
    """Print a line per case, then the figures."""
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(base) if base else trained(python, Path(scratch, "trained"))
        found = []
        for case in compare(model, Path(scratch, "cases"), python):
            found.append(case)
            sign = "  " if case.dry == case.real else "!!"
            print(
                f"{sign} {case.name:32} dry {case.dry:8} real {case.real:8} {case.why}", flush=True
            )
    healthy = [c for c in found if c.name.endswith(HEALTHY)]
    broken = [c for c in found if c.real in {"fails", "silent"}]
    print(f"{len(found)} cases: {len(healthy)} healthy, {len(broken)} that do not work in fact")
    print(f"same verdict: {sum((c.dry == 'loads') == (c.real == 'loads') for c in found)}")
    print(f"same outcome: {sum(c.dry == c.real for c in found)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
