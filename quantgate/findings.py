"""What a rule says (`Fault`) and what a report shows (`Finding`).

A rule yields one fault per module or file. A model with 48 equal layers would give 48 equal
lines, so faults that differ only in layer or expert numbers are joined into one finding with
a pattern, a count and a few examples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_EXAMPLES = 3
MAX_PARENTS = 4
# How a finding came about: from configs and headers alone, from vLLM's own loader without
# weights, or from vLLM with the weights.
HEADERS, DRY_LOAD, SMOKE = TIERS = ("headers", "dry-load", "smoke")


class Severity(StrEnum):
    """How bad: `error` does not load or loads wrong, `warning` loads conditionally, `info`."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


class Outcome(StrEnum):
    """What vLLM will do because of the fault."""

    FAILS = "fails"
    SILENT = "silent"
    CONDITIONAL = "conditional"
    COSMETIC = "cosmetic"


class Confidence(StrEnum):
    """How sure the rule is: `likely` where a fact about the model had to be inferred."""

    CERTAIN = "certain"
    LIKELY = "likely"


class Verdict(StrEnum):
    """What the gate says about one model."""

    PASS = "pass"  # noqa: S105
    WARN = "warn"
    FAIL = "fail"
    UNVERIFIED = "unverified"

    @property
    def rank(self) -> int:
        """0 for the worst; what could not be verified blocks, but a certain fault says more."""
        return _RANKS.index(self)


_RANKS = (Verdict.FAIL, Verdict.UNVERIFIED, Verdict.WARN, Verdict.PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong in one place, as a rule yields it.

    Attributes:
        message: What is wrong and what vLLM does about it, one or two sentences. It must not
            name the module or tensor, or equal faults could not be joined.
        module: Checkpoint module name (`model.layers.3.mlp.down_proj`), where one is meant.
        tensor: Checkpoint tensor name, file name or config key, where one is meant.
        expected: Short text for the report's "expected" cell.
        found: Short text for the "found" cell.
        fix: What to do, in words.
        patch: RFC 6902 operations on config.json that repair the declaration, or empty.
        severity: Overrides the rule's severity.
        outcome: Overrides the rule's outcome.
        confidence: `likely` where something had to be inferred.
        unverified: The fault means that the model could not be read, not that it is wrong.
    """

    message: str
    module: str = ""
    tensor: str = ""
    expected: str = ""
    found: str = ""
    fix: str = ""
    patch: tuple[dict[str, Any], ...] = ()
    severity: Severity | None = None
    outcome: Outcome | None = None
    confidence: Confidence = Confidence.CERTAIN
    unverified: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of a report: a fault, or many equal ones, with the rule that found it.

    `examples` holds at most `MAX_EXAMPLES` names; `count` says how many there are.
    `targets` lists the vLLM targets it holds for; empty means every target of the run.
    `tier` says how it was found: `headers`, `dry-load` or `smoke`.
    """

    rule: str
    name: str
    severity: Severity
    outcome: Outcome
    confidence: Confidence
    module: str
    tensor: str
    pattern: str
    count: int
    examples: tuple[str, ...]
    expected: str
    found: str
    message: str
    fix: str
    patch: tuple[dict[str, Any], ...]
    unverified: bool
    docs: str
    targets: tuple[str, ...] = ()
    tier: str = HEADERS


_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)|(?<=-)\d+(?=-of-\d+\.safetensors$)")


def pattern_of(name: str) -> str:
    """`model.layers.12.mlp.up_proj` → `model.layers.*.mlp.up_proj`; also numbered weight files."""
    return _NUMBER.sub("*", name)


def brace(patterns: Sequence[str]) -> str:
    """Join patterns of one fault into one text, as a shell would expand it.

    `a.q_proj`, `a.k_proj`, `b.o_proj` → `a.{q,k}_proj, b.o_proj`. After `MAX_PARENTS` parents the
    rest is only counted.
    """
    parents: dict[str, list[str]] = {}
    for pattern in patterns:
        parent, _, leaf = pattern.rpartition(".")
        parents.setdefault(parent, []).append(leaf)
    shown = [_brace_leaves(parent, leaves) for parent, leaves in parents.items()]
    rest = len(shown) - MAX_PARENTS
    return ", ".join(shown[:MAX_PARENTS]) + (f", and {rest} more" if rest > 0 else "")


def _brace_leaves(parent: str, leaves: Sequence[str]) -> str:
    head = f"{parent}." if parent else ""
    if len(leaves) == 1:
        return head + leaves[0]
    suffix = "_proj" if all(leaf.endswith("_proj") for leaf in leaves) else ""
    inner = ",".join(leaf.removesuffix(suffix) for leaf in leaves)
    return f"{head}{{{inner}}}{suffix}"


@dataclass(slots=True)
class _Group:
    fault: Fault
    patterns: dict[str, None]
    names: list[str]
    count: int


def join(
    faults: Iterable[Fault],
    *,
    rule: str,
    name: str,
    severity: Severity,
    outcome: Outcome,
    docs: str,
    tier: str = HEADERS,
) -> list[Finding]:
    """Join equal faults of one rule into findings, worst first, else in order of appearance."""
    groups: dict[object, _Group] = {}
    for fault in faults:
        place = fault.module or fault.tensor
        pattern = pattern_of(place)
        suffix = fault.tensor.removeprefix(fault.module) if fault.module else ""
        key = (
            "" if fault.module else pattern,
            suffix,
            fault.message,
            fault.expected,
            fault.found,
            fault.fix,
            fault.severity,
            fault.outcome,
            fault.confidence,
            repr(fault.patch),
        )
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(fault, {}, [], 0)
        group.patterns.setdefault(pattern)
        group.count += 1
        if len(group.names) < MAX_EXAMPLES:
            group.names.append(place)
    findings = [
        Finding(
            rule=rule,
            name=name,
            severity=g.fault.severity or severity,
            outcome=g.fault.outcome or outcome,
            confidence=g.fault.confidence,
            module=g.fault.module if g.count == 1 else "",
            tensor=g.fault.tensor if g.count == 1 else "",
            pattern=(g.fault.module or g.fault.tensor) if g.count == 1 else brace(list(g.patterns)),
            count=g.count,
            examples=tuple(n for n in g.names if n) if g.count > 1 else (),
            expected=g.fault.expected,
            found=g.fault.found,
            message=g.fault.message,
            fix=g.fault.fix,
            patch=g.fault.patch,
            unverified=g.fault.unverified,
            docs=docs,
            tier=tier,
        )
        for g in groups.values()
    ]
    return sorted(findings, key=lambda f: f.severity.rank)


def judge(findings: Iterable[Finding]) -> Verdict:
    """The verdict: a certain fault outranks what could not be read, which outranks warnings."""
    return worst(_verdict(finding) for finding in findings)


def _verdict(finding: Finding) -> Verdict:
    if finding.unverified:
        return Verdict.UNVERIFIED
    if finding.severity is Severity.INFO:
        return Verdict.PASS
    return Verdict.FAIL if finding.severity is Severity.ERROR else Verdict.WARN


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts; without any, a pass."""
    return min(verdicts, key=lambda v: v.rank, default=Verdict.PASS)
