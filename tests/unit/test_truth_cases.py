"""The cases of `make bench-truth`: healthy ones are quiet, and every fault applies somewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.truth.families import FAMILIES
from benchmarks.truth.faults import FAULTS
from benchmarks.truth.methods import METHODS, build
from benchmarks.truth.sample import HEALTHY, sample
from quantgate.checkpoint.sources import open_checkpoint
from quantgate.findings import Severity
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from tests.support.build import write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

# StableLM stacks gate and up in a way that GPTQ in vLLM 0.32.0 cannot take. State spaces have bare
# parameters, from which vLLM takes the whole mixer for dense.
REFUSED = {
    ("stablelm", "gptq"),
    ("stablelm", "gptq-8bit"),
    ("falcon_h1", "gptq"),
    ("falcon_h1", "gptq-8bit"),
    ("falcon_h1", "auto-round"),
    ("nemotron_h", "awq"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_said_of_a_healthy_model(family: str, tmp_path: Path) -> None:
    """All ways to quantize an architecture, none with more than an info."""
    for method in METHODS:
        if (family, method) in REFUSED:
            continue
        case = build(FAMILIES[family], method)
        folder = tmp_path / method
        write_checkpoint(folder, case.config, {"model.safetensors": case.tensors}, case.sides)
        gpu = "sm100" if "nvfp4" in method else "sm90"
        report = check_checkpoint(open_checkpoint(str(folder)), [Target("0.32.0", gpu, 1)])
        loud = [f for f in report.findings if f.severity is not Severity.INFO]
        assert not loud, (method, loud[0].rule, loud[0].pattern, loud[0].message)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_changes_a_model_of_some_family_and_method(fault: str) -> None:
    """Where it says that it applied, config or tensors are others than before."""
    applied = 0
    for family in ("llama", "qwen2", "qwen3_moe"):
        for method in METHODS:
            case, healthy = (build(FAMILIES[family], method) for _ in range(2))
            module = next(iter(case.family.linears))
            if FAULTS[fault](case, module):
                applied += 1
                assert (case.config, case.tensors, case.sides) != (
                    *(healthy.config, healthy.tensors, healthy.sides),
                )
    assert applied


def test_the_same_seed_draws_the_same_cases(tmp_path: Path) -> None:
    """Healthy ones first, then as many broken ones as asked for."""
    first, second = (
        [(a.family, a.method, a.fault, a.module) for a in sample(5, 3, tmp_path / str(i))]
        for i in range(2)
    )
    assert first == second
    assert sum(fault != HEALTHY for _, _, fault, _ in first) == 5
    assert sum(fault == HEALTHY for _, _, fault, _ in first) == len(FAMILIES) * len(METHODS)
