"""What a repository decides about rules: another severity, and findings it has reasons to accept.

A policy never hides anything: an accepted finding stays in the report as a note with its reason.
What could not be read is left alone, since nobody can accept what nobody has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from quantgate.findings import Severity, judge, worst
from quantgate.report.words import place, summary_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quantgate.findings import Finding, Verdict
    from quantgate.report.model import ModelReport, Report

ACCEPTED = "Accepted by this repository"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """Findings that are accepted.

    Attributes:
        rule: Id of the rule.
        reason: Why; shown in the report.
        model: Shell pattern of the model as the report names it; `*` also matches a slash.
        where: Shell pattern of the place as the report names it.
    """

    rule: str
    reason: str
    model: str = "*"
    where: str = "*"

    def covers(self, source: str, finding: Finding) -> bool:
        """Whether it speaks of this finding."""
        return (
            finding.rule == self.rule
            and fnmatchcase(source, self.model)
            and fnmatchcase(place(finding), self.where)
        )

    def __str__(self) -> str:
        parts = [self.rule]
        if self.model != "*":
            parts.append(f"in {self.model}")
        if self.where != "*":
            parts.append(f"at {self.where}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Policy:
    """Severities by rule id, and what is accepted."""

    severities: Mapping[str, Severity] = field(default_factory=dict)
    suppressions: tuple[Suppression, ...] = ()

    def apply(self, report: Report) -> Report:
        """The report as this repository wants it judged."""
        if not self.severities and not self.suppressions:
            return report
        return replace(report, models=tuple(map(self._judged, report.models)))

    def unused(self, report: Report) -> tuple[Suppression, ...]:
        """Suppressions without a finding in a report that no policy was applied to yet.

        One that speaks of models which were not checked may well be needed.
        """
        found = [(m.source, f) for m in report.models for f in m.findings]
        return tuple(
            s
            for s in self.suppressions
            if any(fnmatchcase(m.source, s.model) for m in report.models)
            and not any(s.covers(source, finding) for source, finding in found)
        )

    def _judged(self, model: ModelReport) -> ModelReport:
        # Of two tiers, one may have been judged already; then both now say the same.
        weighed = {repr(w): w for f in model.findings for w in [self._weighed(model.source, f)]}
        findings = tuple(sorted(weighed.values(), key=lambda f: (f.severity.rank, f.rule)))
        if findings == model.findings:
            return model
        old = model.findings
        verdicts = tuple(
            (name, _anew(verdict, _of_target(old, name), _of_target(findings, name)))
            for name, verdict in model.verdicts
        )
        tiers = tuple(
            replace(t, verdict=_anew(t.verdict, _of_tier(old, t.tier), _of_tier(findings, t.tier)))
            for t in model.tiers
        )
        verdict = _anew(model.verdict, old, findings)
        return replace(
            model,
            findings=findings,
            verdict=verdict,
            verdicts=verdicts,
            tiers=tiers,
            summary=summary_of(verdict, verdicts, findings),
        )

    def _weighed(self, source: str, finding: Finding) -> Finding:
        if finding.unverified:
            return finding
        for suppression in self.suppressions:
            if suppression.covers(source, finding):
                if finding.message.startswith(ACCEPTED):
                    return finding
                message = f"{ACCEPTED}: {suppression.reason} {finding.message}"
                return replace(finding, severity=Severity.INFO, message=message)
        severity = self.severities.get(finding.rule)
        return finding if severity is None else replace(finding, severity=severity)


def _anew(verdict: Verdict, before: Iterable[Finding], after: Iterable[Finding]) -> Verdict:
    """The verdict with other findings; what has other reasons than these does not get better."""
    now = judge(after)
    return now if verdict is judge(before) else worst([verdict, now])


def _of_target(findings: Iterable[Finding], name: str) -> list[Finding]:
    return [f for f in findings if not f.targets or name in f.targets]


def _of_tier(findings: Iterable[Finding], tier: str) -> list[Finding]:
    return [f for f in findings if f.tier == tier]
