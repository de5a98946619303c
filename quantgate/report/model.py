"""The report as data; its JSON form is described by `schema.json` beside this file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quantgate.findings import HEADERS, Verdict, worst

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.findings import Finding, Severity
    from quantgate.targets import Target

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """What one name of the declaration (a target, an ignore entry, a standard projection) hits.

    Attributes:
        target: The name as declared (`v_proj`, `re:.*gate$`, `Linear`).
        resolved: The vLLM module or pattern it leads to, empty if skipped.
        kind: `direct`, `fused-whole`, `fused-slice` or `skipped`.
        rows: Half-open range of output rows of the fused weight for a slice, else (0, 0).
        modules: How many checkpoint modules it covers.
        role: `target`, `ignore` or `standard`.
        note: Why, where it is not obvious.
    """

    target: str
    resolved: str
    kind: str
    rows: tuple[int, int] = (0, 0)
    modules: int = 0
    role: str = "target"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Stats:
    """Sizes and times of one check. `bytes_total` counts the weight files, `seconds` wall time."""

    files: int = 0
    tensors: int = 0
    bytes_read: int = 0
    bytes_total: int = 0
    requests: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TierResult:
    """What one tier says about a model; its findings are among those of the model.

    Attributes:
        tier: `headers`, `dry-load` or `smoke`.
        verdict: The verdict of this tier alone.
        summary: One sentence, what was tried and how it ended; may be empty.
        facts: Flat facts for people. What differs between equal runs (seconds) stays out.
    """

    tier: str
    verdict: Verdict
    summary: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelReport:
    """Everything about one model. `declared` and `observed` are flat facts for people.

    `verdicts` has the verdict for each target (its text, as `Target.parse` reads it).
    `tiers` has what each tier says; empty where only the headers were read.
    """

    source: str
    revision: str | None
    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...] = ()
    declared: Mapping[str, Any] = field(default_factory=dict)
    observed: Mapping[str, Any] = field(default_factory=dict)
    resolution: tuple[ResolvedTarget, ...] = ()
    stats: Stats = field(default_factory=Stats)
    verdicts: tuple[tuple[str, Verdict], ...] = ()
    tiers: tuple[TierResult, ...] = ()

    @property
    def tier_names(self) -> tuple[str, ...]:
        """The tiers that looked at this model."""
        return tuple(t.tier for t in self.tiers) or (HEADERS,)

    def count(self, severity: Severity) -> int:
        """How many findings have this severity."""
        return sum(f.severity is severity for f in self.findings)


@dataclass(frozen=True, slots=True)
class Report:
    """One run over any number of models and targets.

    Attributes:
        targets: What was predicted for.
        models: The models that were checked.
        unchanged: How many models were left out because the change does not touch them.
        notes: Sentences about the run as a whole, for people.
    """

    targets: tuple[Target, ...]
    models: tuple[ModelReport, ...]
    unchanged: int = 0
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all models; a run that found none at all has verified nothing."""
        if not (self.models or self.unchanged):
            return Verdict.UNVERIFIED
        return worst(m.verdict for m in self.models)

    def count(self, severity: Severity) -> int:
        """How many findings of all models have this severity."""
        return sum(m.count(severity) for m in self.models)
