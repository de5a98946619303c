"""The dry load beside the headers tier: do they say the same, and which rule says why?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quantgate.findings import Outcome, Severity, pattern_of
from quantgate.vllm.dry_load.result import DryOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from quantgate.findings import Finding
    from quantgate.vllm.dry_load.result import DryLoad


@dataclass(frozen=True, slots=True)
class ComparedLoad:
    """A dry load and what the rules say of the same model and target.

    Attributes:
        load: The dry load.
        agrees: Whether both tiers say that the model works, or both that it does not; None where
            one of them could not tell.
        rules: Ids of the rules that explain the outcome in plain words, the closest ones only.
            Empty where there is nothing to explain, or none does.
    """

    load: DryLoad
    agrees: bool | None
    rules: tuple[str, ...] = ()


def compare(load: DryLoad, findings: Sequence[Finding]) -> ComparedLoad:
    """Compare with the findings for the load's target (no targets: they hold for all)."""
    held = [f for f in findings if not f.targets or str(load.target) in f.targets]
    errors = [f for f in held if f.severity is Severity.ERROR and not f.unverified]
    unread = any(f.unverified for f in held)
    if load.outcome is DryOutcome.UNKNOWN or (unread and not errors):
        return ComparedLoad(load, None)
    names = [load.tensor, *(n.partition(":")[0] for s in load.silent for n in s.names)]
    rules = explaining(load.outcome, names, errors)
    if load.outcome.is_fault and not rules:
        rules = explaining(Outcome.CONDITIONAL, names, errors)
    return ComparedLoad(load, load.outcome.is_fault == bool(errors), rules)


def explaining(outcome: str, names: Iterable[str], errors: Sequence[Finding]) -> tuple[str, ...]:
    """The rules with this outcome; of these, those about one of the places if there are any."""
    same = [f for f in errors if f.outcome.value == outcome]
    places = {pattern_of(p) for n in names if n for p in (n, n.rpartition(".")[0])}
    close = [f for f in same if places & set(map(pattern_of, _places(f)))]
    return tuple(dict.fromkeys(f.rule for f in close or same))


def _places(finding: Finding) -> tuple[str, ...]:
    return (finding.module, finding.tensor, *finding.examples)
