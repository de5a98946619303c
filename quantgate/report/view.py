"""What one rendering of the report shows: the report cut down to a level of detail.

A comment has a size limit, so the same report is rendered with less and less detail until it
fits (`markdown.py`). Everything is cut here, in whole rows; a template never cuts.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.findings import Severity, Verdict
from quantgate.report import words
from quantgate.report.compare import Comparison
from quantgate.report.config_diff import diff_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quantgate.findings import Finding
    from quantgate.report.compare import ModelChange
    from quantgate.report.model import ModelReport, Report, ResolvedTarget, TierResult

ALL = sys.maxsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """How much to show. `left_out` says what this level drops that the one before did not.

    Attributes:
        passing: Name the passing models of several; otherwise only count them.
        resolution: Rows of the table of names, per model.
        facts: Show declared and observed facts.
        minor: Show the findings that do not block, beside some that do.
        rows: Findings per rule and model.
        models: Failing models shown in full; of several, also the rows of the overview.
        changes: Lines of the suggested change, per model.
        findings: Show findings at all; otherwise only a count per rule.
        notes: Sentences about the run as a whole.
    """

    passing: bool = True
    resolution: int = ALL
    facts: bool = True
    minor: bool = True
    rows: int = ALL
    models: int = ALL
    changes: int = 400
    findings: bool = True
    notes: int = 20
    left_out: str = ""


MAIN_ROWS = 10  # findings of a model that are read at a glance; the others are folded
MAX_FIXED = 20  # findings that are gone, per model
# The observed fact that is a table of its own.
QUANT_MAP = "quant map"
LEVELS = (
    Detail(),
    Detail(passing=False, left_out="the names of passing models"),
    Detail(passing=False, resolution=30, left_out="part of the resolved names"),
    Detail(passing=False, resolution=0, facts=False, left_out="how the declaration resolves"),
    Detail(
        passing=False,
        resolution=0,
        facts=False,
        minor=False,
        left_out="warnings and notes",
    ),
    Detail(
        passing=False,
        resolution=0,
        facts=False,
        minor=False,
        rows=20,
        models=50,
        changes=100,
        left_out="findings beyond the first 20 of each rule",
    ),
    Detail(
        passing=False,
        resolution=0,
        facts=False,
        minor=False,
        rows=5,
        models=20,
        changes=40,
        left_out="findings beyond the first 5 of each rule",
    ),
    Detail(
        passing=False,
        resolution=0,
        facts=False,
        minor=False,
        rows=1,
        models=5,
        changes=15,
        left_out="findings beyond the first of each rule",
    ),
    Detail(
        passing=False,
        resolution=0,
        facts=False,
        minor=False,
        rows=0,
        models=3,
        changes=0,
        findings=False,
        notes=2,
        left_out="every single finding",
    ),
)


@dataclass(frozen=True, slots=True)
class More:
    """Findings of one rule that are not shown; `like` is the first of them."""

    like: Finding
    count: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Findings shown and not shown."""

    shown: tuple[Finding, ...] = ()
    more: tuple[More, ...] = ()

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """One of the shown findings for each thing that a rule says."""
        found: dict[tuple[str, str], Finding] = {}
        for finding in self.shown:
            found.setdefault((finding.rule, finding.message), finding)
        return tuple(found.values())

    @property
    def total(self) -> int:
        """How many findings these are, shown or not."""
        return len(self.shown) + sum(m.count for m in self.more)

    def __bool__(self) -> bool:
        return bool(self.shown or self.more)


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the table of declared and observed facts; `differs` only if both are known."""

    name: str
    declared: str
    observed: str
    differs: bool


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model as shown.

    Attributes:
        model: The report on it.
        main: The findings to act on: the errors, or the warnings where there is no error.
        folded: More of these, where they are too many to read.
        minor: The others.
        minor_tally: `2 warnings, 1 note`, also where they are not shown.
        diff: Lines of the suggested change to config.json.
        facts: Declared beside observed.
        quant_map: (modules, layers with their scheme), a few lines for the whole model.
        resolution: Rows of the table of names.
        resolution_more: How many rows are not shown.
        tiers: What each tier says, where there are others than the headers.
        tier_facts: Name and value of what the tiers measured.
        change: The comparison with the report before, where there is one.
        fixed: What is gone since then, as far as shown.
    """

    model: ModelReport
    main: Rows
    folded: Rows
    minor: Rows
    minor_tally: str
    diff: list[str]
    facts: tuple[Fact, ...]
    quant_map: tuple[tuple[str, str], ...]
    resolution: tuple[ResolvedTarget, ...]
    resolution_more: int
    tiers: tuple[TierResult, ...]
    tier_facts: tuple[tuple[str, str], ...]
    change: ModelChange | None
    fixed: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The report as shown.

    Attributes:
        report: All of it.
        detail: The level it was cut to.
        left_out: What this and the levels before dropped, in words.
        comparison: With the report before; without models where there is none.
        models: Models shown in full, worst first.
        overview: Rows of the overview over several models: those that do not pass.
        overview_more: How many of these are not shown.
        passing: Models that pass and are only named, in the order of the report.
        passing_count: How many pass.
    """

    report: Report
    detail: Detail
    left_out: tuple[str, ...]
    comparison: Comparison
    models: tuple[ModelView, ...]
    overview: tuple[ModelReport, ...]
    overview_more: int
    passing: tuple[ModelReport, ...]
    passing_count: int

    @property
    def lines(self) -> int:
        """A lower bound on the lines of a rendering."""
        within = (
            len(m.main.shown)
            + len(m.folded.shown)
            + len(m.minor.shown)
            + len(m.facts)
            + len(m.resolution)
            for m in self.models
        )
        return len(self.overview) + len(self.passing) + sum(within)


def _cut(findings: Sequence[Finding], rows: int) -> Rows:
    """The first `rows` findings of each rule, and how many more each has."""
    seen: Counter[str] = Counter()
    shown: list[Finding] = []
    rest: dict[str, More] = {}
    for finding in findings:
        seen[finding.rule] += 1
        if seen[finding.rule] <= rows:
            shown.append(finding)
        else:
            more = rest.get(finding.rule)
            rest[finding.rule] = More(
                more.like if more else finding, (more.count if more else 0) + 1
            )
    return Rows(tuple(shown), tuple(rest.values()))


def _fold(rows: Rows) -> tuple[Rows, Rows]:
    """The rows to read and the others; each rule has its first finding before any has a second."""
    if len(rows.shown) <= MAIN_ROWS:
        return rows, Rows()
    seen: Counter[str] = Counter()
    turns = []
    for index, finding in enumerate(rows.shown):
        turns.append((seen[finding.rule], index))
        seen[finding.rule] += 1
    first = {index for _, index in sorted(turns)[:MAIN_ROWS]}
    told = tuple(f for i, f in enumerate(rows.shown) if i in first)
    rest = tuple(f for i, f in enumerate(rows.shown) if i not in first)
    return Rows(told), Rows(rest, rows.more)


def _facts(declared: Mapping[str, Any], observed: Mapping[str, Any]) -> tuple[Fact, ...]:
    names = dict.fromkeys(n for n in [*declared, *observed] if n != QUANT_MAP)
    rows = []
    for name in names:
        left = words.fact(declared[name]) if name in declared else ""
        right = words.fact(observed[name]) if name in observed else ""
        both = name in declared and name in observed
        rows.append(Fact(str(name), left, right, both and left != right))
    return tuple(rows)


def _tier_facts(tiers: Sequence[TierResult]) -> tuple[tuple[str, str], ...]:
    return tuple((name, words.fact(value)) for t in tiers for name, value in t.facts.items())


def _quant_map(observed: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    rows = observed.get(QUANT_MAP)
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return tuple((str(row.get("modules", "")), str(row.get("layers", ""))) for row in found)


def _model(model: ModelReport, detail: Detail, comparison: Comparison) -> ModelView:
    change = comparison.of(model)
    findings = sorted(model.findings, key=lambda f: f.severity.rank)
    # An unreadable file blocks whatever its severity says.
    blocking = [f for f in findings if f.severity is Severity.ERROR or f.unverified]
    others = [f for f in findings if not (f.severity is Severity.ERROR or f.unverified)]
    warnings = [f for f in others if f.severity is Severity.WARNING]
    notes = [f for f in others if f.severity is Severity.INFO]
    main, minor = (blocking, others) if blocking else (warnings, notes)
    told, folded = _fold(_cut(main, detail.rows))
    return ModelView(
        model=model,
        main=told,
        folded=folded,
        minor=_cut(minor, detail.rows) if detail.minor else Rows(),
        minor_tally=words.tally_all(minor),
        diff=diff_lines([f.patch for f in findings], detail.changes),
        facts=_facts(model.declared, model.observed) if detail.facts else (),
        quant_map=_quant_map(model.observed) if detail.facts else (),
        resolution=model.resolution[: detail.resolution],
        resolution_more=max(0, len(model.resolution) - detail.resolution),
        tiers=model.tiers,
        tier_facts=_tier_facts(model.tiers) if detail.facts else (),
        change=change,
        fixed=change.fixed[:MAX_FIXED] if change and detail.facts else (),
    )


def view(report: Report, level: int = 0, comparison: Comparison | None = None) -> View:
    """Cut the report to one of `LEVELS`."""
    compared = comparison or Comparison()
    detail = LEVELS[level]
    several = len(report.models) > 1
    worst_first = sorted(report.models, key=lambda m: m.verdict.rank)
    notable = [m for m in worst_first if m.verdict is not Verdict.PASS]
    in_full = notable if several else worst_first
    passing = tuple(m for m in report.models if m.verdict is Verdict.PASS)
    return View(
        report=report,
        detail=detail,
        left_out=tuple(d.left_out for d in LEVELS[1 : level + 1] if _applies(d, report)),
        comparison=compared,
        models=tuple(_model(m, detail, compared) for m in in_full[: detail.models]),
        overview=tuple(notable[: detail.models]) if several else (),
        overview_more=max(0, len(notable) - detail.models) if several else 0,
        passing=passing if several and detail.passing else (),
        passing_count=len(passing),
    )


def _applies(detail: Detail, report: Report) -> bool:
    """Whether a level drops anything from this report: what was never there is not left out."""
    models = report.models
    if detail is LEVELS[1]:
        return len(models) > 1 and any(m.verdict is Verdict.PASS for m in models)
    if detail is LEVELS[2]:
        return False  # the table itself says how many rows are missing
    if detail is LEVELS[3]:
        return any(m.resolution or m.declared or m.observed for m in models)
    if detail is LEVELS[4]:
        return any(f.severity is not Severity.ERROR for m in models for f in m.findings)
    return detail is LEVELS[-1]  # rows beyond a cap are counted where they are missing
