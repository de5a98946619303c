"""What a change does to the findings: new, fixed, or there before.

Findings are matched by rule, pattern and model. Where the two reports did not look at the same
thing (a tier that one lacks, a model that could not be read), nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from quantgate.findings import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.findings import Finding
    from quantgate.report.model import ModelReport, Report


class Change(StrEnum):
    """A finding compared with the report before."""

    NEW = "new"
    EXISTING = "existing"


@dataclass(frozen=True, slots=True)
class ModelChange:
    """One model compared.

    Attributes:
        changes: (rule, pattern, new or existing) of the findings that could be compared.
        new: How many are new.
        existing: How many were there before.
        fixed: Findings of before that are gone, worst first.
    """

    changes: frozenset[tuple[str, str, Change]]
    new: int
    existing: int
    fixed: tuple[Finding, ...]

    def of(self, finding: Finding) -> Change | None:
        """What became of a finding of this model; None where that is not known."""
        keys = ((finding.rule, finding.pattern, c) for c in Change)
        return next((key[2] for key in keys if key in self.changes), None)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two reports compared, by the source of a model; what only one of them has is missing."""

    models: Mapping[str, ModelChange] = field(default_factory=dict)

    def of(self, model: ModelReport) -> ModelChange | None:
        """The comparison of one model."""
        return self.models.get(model.source)

    @property
    def new(self) -> int:
        """How many findings are new."""
        return sum(m.new for m in self.models.values())

    @property
    def existing(self) -> int:
        """How many were there before."""
        return sum(m.existing for m in self.models.values())

    @property
    def fixed(self) -> tuple[Finding, ...]:
        """What is gone, of all models."""
        return tuple(f for m in self.models.values() for f in m.fixed)


def compare_reports(now: Report, before: Report) -> Comparison:
    """What changed from one report to the other."""
    known = {m.source: m for m in before.models if _was_read(m)}
    return Comparison(
        {m.source: _compared(m, known[m.source]) for m in now.models if m.source in known}
    )


def _was_read(model: ModelReport) -> bool:
    return model.verdict is not Verdict.UNVERIFIED


def _key(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.pattern


def _compared(now: ModelReport, before: ModelReport) -> ModelChange:
    tiers = set(now.tier_names) & set(before.tier_names)
    here = [f for f in now.findings if f.tier in tiers]
    there = [f for f in before.findings if f.tier in tiers]
    keys_now, keys_before = set(map(_key, here)), set(map(_key, there))
    new = [f for f in here if _key(f) not in keys_before]
    # What was not read has no findings either; that repairs nothing.
    gone = [f for f in there if _key(f) not in keys_now] if _was_read(now) else []
    return ModelChange(
        changes=frozenset(
            (*key, Change.EXISTING if key in keys_before else Change.NEW) for key in keys_now
        ),
        new=len(new),
        existing=len(here) - len(new),
        fixed=tuple(sorted(gone, key=lambda f: f.severity.rank)),
    )
