"""Both tiers in one report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.findings import HEADERS
from quantgate.report.model import Report, TierResult
from quantgate.report.settle import settled
from quantgate.runner import check_models
from quantgate.vllm.smoke.runner import smoke_load
from quantgate.vllm.smoke.tier import tier_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quantgate.report.model import ModelReport
    from quantgate.vllm.smoke.result import SmokeLoad
    from quantgate.vllm.smoke.settings import Settings


def check_with_smoke_load(
    sources: Sequence[str], settings: Settings, *, reference: str | None = None
) -> Report:
    """Load models with their weights and check their headers for the same target.

    The arguments are those of `smoke_load`.

    Raises:
        SmokeError: There is no vLLM, or not the device that was asked for.
    """
    run = smoke_load(sources, settings, reference=reference)
    report = check_models(sources, [run.target], lfs=settings.lfs)
    models = (joined(m, load) for m, load in zip(report.models, run.results, strict=True))
    return Report(report.targets, tuple(models))


def joined(model: ModelReport, load: SmokeLoad) -> ModelReport:
    """The headers tier's report on a model with its smoke load; the worse verdict holds."""
    headers = TierResult(HEADERS, model.verdict, model.summary)
    return settled(replace(model, tiers=(headers, tier_result(load, model.findings))))
