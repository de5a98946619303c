"""Both tiers in one report."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.checkpoint.base import NONE
from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.findings import DRY_LOAD, HEADERS
from quantgate.report.merge import merge_reports
from quantgate.report.model import Report, TierResult
from quantgate.report.settle import settled
from quantgate.rules import rules_of
from quantgate.runner import check_models, chosen
from quantgate.vllm.children.process import Limits
from quantgate.vllm.dry_load.child.gpus import CPU, GPUS
from quantgate.vllm.dry_load.compare import compare
from quantgate.vllm.dry_load.runner import DryLoadError, dry_load
from quantgate.vllm.dry_load.tier import tier_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quantgate.findings import Finding
    from quantgate.report.model import ModelReport
    from quantgate.rules import Rule
    from quantgate.vllm.dry_load.result import DryLoad

USUAL_GPU = "sm90"


def check_with_dry_load(
    sources: Sequence[str],
    *,
    gpu: str = USUAL_GPU,
    tensor_parallel: int = 1,
    vllm_python: str = sys.executable,
    limits: Limits = Limits(),  # noqa: B008  it is frozen
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
    base: str = NONE,
    lfs: Lfs = Lfs.AUTO,
) -> Report:
    """Load models dry and check their headers for the same target.

    The arguments are those of `dry_load` and `check_models`.

    Raises:
        DryLoadError: There is no vLLM, or not one that is supported.
    """
    run = dry_load(
        sources,
        gpu=gpu,
        tensor_parallel=tensor_parallel,
        vllm_python=vllm_python,
        limits=limits,
        lfs=lfs,
    )
    report = check_models(sources, [run.target], select=select, ignore=ignore, base=base, lfs=lfs)
    rules = chosen(DRY_LOAD, select, ignore)
    models = (joined(m, load, rules) for m, load in zip(report.models, run.results, strict=True))
    return Report(report.targets, tuple(models))


def add_dry_loads(
    report: Report,
    sources: Sequence[str],
    vllm_python: str,
    *,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
    base: str = NONE,
    lfs: Lfs = Lfs.AUTO,
) -> Report:
    """The report of a check with a dry load for every GPU and size among its targets.

    The release is the one that is installed; it becomes one more target of the report.

    Raises:
        DryLoadError: As `check_with_dry_load`, or a target's GPU is not simulated.
    """
    asked = dict.fromkeys((t.gpu or USUAL_GPU, t.tensor_parallel) for t in report.targets)
    for gpu, _ in asked:
        if gpu not in {*GPUS, CPU}:
            raise DryLoadError(f"No dry load: {gpu} is none of {', '.join([*GPUS, CPU])}.")
    loaded = [
        check_with_dry_load(
            sources,
            gpu=gpu,
            tensor_parallel=size,
            vllm_python=vllm_python,
            select=select,
            ignore=ignore,
            base=base,
            lfs=lfs,
        )
        for gpu, size in asked
    ]
    return merge_reports([report, *loaded])


def joined(model: ModelReport, load: DryLoad, rules: Sequence[Rule] | None = None) -> ModelReport:
    """The headers tier's report on a model with its dry load; the worse of both verdicts holds.

    A fault that no rule of the headers tier explains becomes a finding of its own.

    Args:
        model: What the headers tier says for the load's target.
        load: The dry load.
        rules: Those of the dry load's tier to apply; all, if not given.
    """
    headers = TierResult(HEADERS, model.verdict, model.summary)
    beside = compare(load, model.findings)
    own: list[Finding] = []
    if not beside.rules:
        own = [f for r in (rules_of(DRY_LOAD) if rules is None else rules) for f in r.run(load)]
    findings = tuple(sorted((*model.findings, *own), key=lambda f: (f.severity.rank, f.rule)))
    return settled(replace(model, findings=findings, tiers=(headers, tier_result(beside))))
