"""The verdicts of a model brought in line with what they rest on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.findings import Verdict, judge, worst
from quantgate.report.words import summary_of, tier

if TYPE_CHECKING:
    from quantgate.report.model import ModelReport


def is_unopened(model: ModelReport) -> bool:
    """Whether nothing of it could be read, so that its summary is the only thing known."""
    known = model.findings or model.verdicts or model.tiers
    return model.verdict is Verdict.UNVERIFIED and not known


def settled(model: ModelReport) -> ModelReport:
    """The model with verdicts that are no better than its findings and tiers, and their summary.

    What a verdict says already can only be made worse.
    """
    findings = model.findings
    verdicts = tuple(
        (name, worst([v, judge(f for f in findings if not f.targets or name in f.targets)]))
        for name, v in model.verdicts
    )
    tiers = tuple(
        replace(t, verdict=worst([t.verdict, judge(f for f in findings if f.tier == t.tier)]))
        for t in model.tiers
    )
    below = [*(t.verdict for t in tiers), *(v for _, v in verdicts)]
    verdict = worst([model.verdict, judge(findings), *below])
    new = replace(model, verdict=verdict, verdicts=verdicts, tiers=tiers)
    return new if is_unopened(new) else replace(new, summary=_summary(new))


def _summary(model: ModelReport) -> str:
    """The sentence on a model; where only a tier says so, it points at that tier."""
    explained = worst([judge(model.findings), *(v for _, v in model.verdicts)])
    if explained is not model.verdict:
        for result in model.tiers:
            if result.verdict is model.verdict:
                return f"Judged by the {tier(result)}."
    return summary_of(model.verdict, model.verdicts, model.findings)
