"""Both tiers in one report."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.findings import HEADERS
from quantgate.report.model import Report, TierResult
from quantgate.report.settle import settled
from quantgate.runner import check_models
from quantgate.vllm.children.process import Limits
from quantgate.vllm.dry_load.compare import compare
from quantgate.vllm.dry_load.runner import dry_load
from quantgate.vllm.dry_load.tier import tier_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quantgate.report.model import ModelReport
    from quantgate.vllm.dry_load.result import DryLoad


def check_with_dry_load(
    sources: Sequence[str],
    *,
    gpu: str = "sm90",
    tensor_parallel: int = 1,
    vllm_python: str = sys.executable,
    limits: Limits = Limits(),  # noqa: B008  it is frozen
) -> Report:
    """Load models dry and check their headers for the same target.

    The arguments are those of `dry_load`.

    Raises:
        DryLoadError: There is no vLLM, or not one that is supported.
    """
    run = dry_load(
        sources,
        gpu=gpu,
        tensor_parallel=tensor_parallel,
        vllm_python=vllm_python,
        limits=limits,
    )
    report = check_models(sources, [run.target])
    models = (joined(m, load) for m, load in zip(report.models, run.results, strict=True))
    return Report(report.targets, tuple(models))


def joined(model: ModelReport, load: DryLoad) -> ModelReport:
    """The headers tier's report on a model with its dry load; the worse of both verdicts holds."""
    headers = TierResult(HEADERS, model.verdict, model.summary)
    dry = tier_result(compare(load, model.findings))
    return settled(replace(model, tiers=(headers, dry)))
