"""Put small checkpoints before both tiers and count where they agree: `make bench-truth`.

The dry load is the judge: vLLM's own loader. What it cannot tell is left out and counted. The
figures are kept in truth.json beside this file, from where README takes its line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.truth.families import FAMILIES
from benchmarks.truth.faults import FAULTS
from benchmarks.truth.methods import METHODS
from benchmarks.truth.sample import HEALTHY, Asked, sample
from quantgate.checkpoint.sources import open_checkpoint
from quantgate.findings import Verdict
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from quantgate.vllm.dry_load import DryOutcome, dry_load

if TYPE_CHECKING:
    from quantgate.report.model import ModelReport
    from quantgate.vllm.dry_load import DryLoad

RESULT = Path(__file__).with_name("truth.json")


def main() -> None:
    """Ask, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--vllm-python", default=sys.executable)
    parser.add_argument("--broken", type=int, default=1600, help="broken cases to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tp", type=int, default=1, help="tensor-parallel size")
    parser.add_argument("--keep", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    answers: list[tuple[Asked, DryLoad, ModelReport]] = []
    with tempfile.TemporaryDirectory() as folder:
        asked = list(sample(options.broken, options.seed, Path(folder)))
        for gpu in sorted({a.gpu for a in asked}):
            mine = [a for a in asked if a.gpu == gpu]
            run = dry_load(
                [str(a.folder) for a in mine],
                gpu=gpu,
                tensor_parallel=options.tp,
                vllm_python=options.vllm_python,
            )
            target = Target(run.target.release, gpu, options.tp)
            for one, dry in zip(mine, run.results, strict=True):
                report = check_checkpoint(open_checkpoint(str(one.folder)), [target])
                answers.append((one, dry, report))
    figures = count(answers, target.release)
    show(answers, figures)
    if options.keep:
        RESULT.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def agrees(dry: DryLoad, report: ModelReport) -> bool:
    """Whether the headers tier blocks what does not work, and nothing else."""
    return (report.verdict is Verdict.FAIL) == dry.outcome.is_fault


def count(answers: list[tuple[Asked, DryLoad, ModelReport]], release: str) -> dict[str, Any]:
    """The figures that are kept."""
    told = [(a, d, r) for a, d, r in answers if d.outcome is not DryOutcome.UNKNOWN]
    faulty = [(a, d, r) for a, d, r in told if d.outcome.is_fault]
    return {
        "release": release,
        "families": len(FAMILIES),
        "methods": len(METHODS),
        "faults": len(FAULTS),
        "cases": len(told),
        "not told": len(answers) - len(told),
        "healthy": sum(a.fault == HEALTHY for a, _, _ in told),
        "agree": sum(agrees(d, r) for _, d, r in told),
        "fails": sum(d.outcome is DryOutcome.FAILS for _, d, _ in faulty),
        "silent": sum(d.outcome is DryOutcome.SILENT for _, d, _ in faulty),
        "misses": sum(not agrees(d, r) for _, d, r in faulty),
        "false alarms": sum(not agrees(d, r) for _, d, r in told if not d.outcome.is_fault),
    }


def show(answers: list[tuple[Asked, DryLoad, ModelReport]], figures: dict[str, Any]) -> None:
    """Print the figures, what differs by fault, and each disagreement."""
    by_fault: dict[str, Counter[str]] = defaultdict(Counter)
    for asked, dry, report in answers:
        row = by_fault[asked.fault or "(healthy)"]
        row[dry.outcome.value] += 1
        if dry.outcome is not DryOutcome.UNKNOWN:
            row["agree"] += agrees(dry, report)
    print(f"{'fault':<34}{'loads':>7}{'fails':>7}{'silent':>7}{'not told':>9}{'agree':>7}")
    for fault, row in sorted(by_fault.items()):
        counts = (row[k] for k in ("loads", "fails", "silent", "unknown", "agree"))
        loads, fails, silent, unknown, agree = counts
        print(f"{fault:<34}{loads:>7}{fails:>7}{silent:>7}{unknown:>9}{agree:>7}")
    print()
    for asked, dry, report in answers:
        if dry.outcome is not DryOutcome.UNKNOWN and not agrees(dry, report):
            said = dry.message.partition("\n")[0] or "; ".join(
                f"{s.kind} {s.names[0]}" for s in dry.silent if s.names
            )
            rules = sorted({f.rule for f in report.findings if f.severity == "error"})
            print(
                f"{asked.name}: vLLM {dry.outcome} ({said[:100]}), headers {report.verdict} {rules}"
            )
    print("\n" + ", ".join(f"{key} {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
