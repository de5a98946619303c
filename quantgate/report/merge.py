"""Several reports joined into one: tiers and targets of the same model, and models of many jobs.

A gate fails closed: what was expected and did not arrive is `unverified`, and among several
answers the worst one holds.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from quantgate.findings import HEADERS, TIERS, Finding, Verdict, worst
from quantgate.report.model import ModelReport, Report, Stats, TierResult
from quantgate.report.settle import is_unopened, settled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


MOST = 2**53 - 1  # of any number in `schema.json`


def merge_reports(
    reports: Iterable[Report], *, models: Sequence[str] = (), tiers: Sequence[str] = ()
) -> Report:
    """One report of all of them, models in order of appearance.

    Two reports are about the same model if the source is the same, and the revision too where
    both know it.

    Args:
        reports: What arrived.
        models: Sources that must be among them.
        tiers: Tiers that every model must have been through.
    """
    reports = list(reports)
    targets = tuple(dict.fromkeys(t for r in reports for t in r.targets))
    groups: list[list[ModelReport]] = []
    of_source: dict[str, list[list[ModelReport]]] = {}
    for report in reports:
        for model in report.models:
            told = model if len(report.targets) == len(targets) else _narrowed(model, report)
            alike = of_source.setdefault(model.source, [])
            group = next((g for g in alike if _agree(g, told)), None)
            if group is None:
                groups.append([told])
                alike.append(groups[-1])
            else:
                group.append(told)
    merged = [_merged(group) for group in groups]
    known = {model.source for model in merged}
    merged += [absent(s, "No report on this model arrived.") for s in models if s not in known]
    return Report(
        targets,
        tuple(_complete(model, tiers) for model in merged),
        min(sum(r.unchanged for r in reports), MOST),
        tuple(dict.fromkeys(n for r in reports for n in r.notes)),
    )


def absent(source: str, reason: str) -> ModelReport:
    """A model, or a part of a report, that nothing is known about."""
    return ModelReport(source, None, Verdict.UNVERIFIED, reason)


def _narrowed(model: ModelReport, report: Report) -> ModelReport:
    """Its findings with the targets they hold for: "all of the run" ends with the run."""
    all_of_run = tuple(map(str, report.targets))
    findings = tuple(f if f.targets else replace(f, targets=all_of_run) for f in model.findings)
    return replace(model, findings=findings)


def _agree(group: Sequence[ModelReport], model: ModelReport) -> bool:
    """Whether all of them may be of one revision."""
    revisions = {m.revision for m in group} - {None}
    return not revisions or model.revision is None or model.revision in revisions


def _tiers(model: ModelReport) -> tuple[TierResult, ...]:
    if model.tiers:
        return model.tiers
    return (TierResult(HEADERS, model.verdict, model.summary if is_unopened(model) else ""),)


def _merged(group: Sequence[ModelReport]) -> ModelReport:
    """All that is known about one model."""
    if len(group) == 1:
        return group[0]
    tiers: dict[str, TierResult] = {}
    for result in (t for m in group for t in _tiers(m)):
        tiers[result.tier] = _joined(tiers.get(result.tier, result), result)
    verdicts: dict[str, Verdict] = {}
    for name, verdict in (pair for m in group for pair in m.verdicts):
        verdicts[name] = worst([verdict, verdicts.get(name, verdict)])
    only_headers = set(tiers) == {HEADERS} and not tiers[HEADERS].summary
    return settled(
        replace(
            group[0],
            revision=next((m.revision for m in group if m.revision is not None), None),
            verdict=worst(m.verdict for m in group),
            summary=next((m.summary for m in group if is_unopened(m)), group[0].summary),
            findings=_findings(group),
            declared=_facts([m.declared for m in group]),
            observed=_facts([m.observed for m in group]),
            resolution=next((m.resolution for m in group if m.resolution), ()),
            stats=_stats([m.stats for m in group]),
            verdicts=tuple(verdicts.items()),
            tiers=() if only_headers else _in_order(tiers.values()),
        )
    )


def _in_order(tiers: Iterable[TierResult]) -> tuple[TierResult, ...]:
    return tuple(sorted(tiers, key=lambda t: TIERS.index(t.tier)))


def _joined(one: TierResult, other: TierResult) -> TierResult:
    """Two answers of one tier, as for two targets: the worse one speaks."""
    worse = min(one, other, key=lambda t: t.verdict.rank)
    return replace(worse, facts=_facts([one.facts, other.facts]))


def _facts(several: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All facts; of two with one name, the first."""
    return {name: value for facts in reversed(several) for name, value in facts.items()}


def _findings(group: Sequence[ModelReport]) -> tuple[Finding, ...]:
    """Each finding once, with all targets it holds for; worst first, as in a single report."""
    found: dict[str, Finding] = {}
    for finding in (f for m in group for f in m.findings):
        key = repr(replace(finding, targets=()))
        known = found.setdefault(key, finding)
        # Without targets it holds for all of them already.
        if known.targets and finding.targets:
            both = tuple(dict.fromkeys([*known.targets, *finding.targets]))
            found[key] = replace(known, targets=both)
        elif known.targets:
            found[key] = finding
    return tuple(sorted(found.values(), key=lambda f: (f.severity.rank, f.rule)))


def _stats(several: Sequence[Stats]) -> Stats:
    """Sizes are those of the model, hence the largest told; requests and times add up."""
    totals = {f.name: [getattr(s, f.name) for s in several] for f in fields(Stats)}
    adds = {"requests", "seconds"}
    return Stats(**{n: min(sum(v), MOST) if n in adds else max(v) for n, v in totals.items()})


def _complete(model: ModelReport, expected: Sequence[str]) -> ModelReport:
    """The model with a result for each tier that had to look at it."""
    missing = [tier for tier in dict.fromkeys(expected) if tier not in model.tier_names]
    if not missing:
        return model
    lacking = [TierResult(t, Verdict.UNVERIFIED, "No result arrived.") for t in missing]
    return settled(replace(model, tiers=_in_order([*_tiers(model), *lacking])))
