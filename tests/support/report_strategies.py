"""Reports of any content, as property-based tests need them."""

from __future__ import annotations

from hypothesis import strategies as st

from quantgate.findings import TIERS, Confidence, Outcome, Severity, Verdict, judge, worst
from quantgate.report.model import ModelReport, Report, ResolvedTarget, Stats, TierResult
from quantgate.report.words import summary_of
from quantgate.rules import DOCS_URL
from quantgate.targets import Target
from tests.support import report_samples as samples

# Long names have tests of their own; here they would drown the example that fails.
HOSTILE = [text[:300] for text in samples.HOSTILE.values()]
NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30))
COUNTS = st.integers(0, 2**53 - 1)
TARGETS = st.sampled_from([samples.TARGET, Target(), Target("0.30.0", "cpu", 8)])
VALUES = st.one_of(NAMES, COUNTS, st.booleans(), st.floats(allow_nan=False, allow_infinity=False))


@st.composite
def findings(draw: st.DrawFn):
    """A finding with hostile text wherever a stranger writes."""
    rule = f"QG{draw(st.integers(100, 999))}"
    count = draw(st.integers(1, 2**53 - 1))
    return samples.finding(
        rule=rule,
        docs=DOCS_URL.format(id=rule),
        severity=draw(st.sampled_from(Severity)),
        outcome=draw(st.sampled_from(Outcome)),
        confidence=draw(st.sampled_from(Confidence)),
        count=count,
        examples=tuple(draw(st.lists(NAMES, max_size=3))) if count > 1 else (),
        unverified=draw(st.booleans()),
        targets=tuple(draw(st.lists(TARGETS.map(str), max_size=2, unique=True))),
        tier=draw(st.sampled_from(TIERS)),
        patch=tuple(
            {"op": "add", "path": f"/{name}", "value": name}
            for name in draw(st.lists(NAMES, max_size=2))
        ),
        **{
            key: draw(NAMES)
            for key in ("module", "tensor", "pattern", "expected", "found", "message", "fix")
        },
    )


@st.composite
def models(draw: st.DrawFn, targets: tuple[Target, ...]) -> ModelReport:
    """A model as the gate reports it: its verdicts and its summary follow from its findings."""
    found = tuple(draw(st.lists(findings(), max_size=4)))
    verdicts = tuple(
        (str(t), judge([f for f in found if not f.targets or str(t) in f.targets])) for t in targets
    )
    tiers = tuple(
        TierResult(
            tier,
            judge([f for f in found if f.tier == tier]),
            draw(NAMES),
            draw(st.dictionaries(NAMES, VALUES, max_size=2)),
        )
        for tier in draw(st.lists(st.sampled_from(TIERS), max_size=3, unique=True))
    )
    verdict = worst([judge(found), *(v for _, v in verdicts)])
    resolution = st.builds(
        ResolvedTarget,
        NAMES,
        NAMES,
        st.sampled_from(["direct", "fused-whole", "fused-slice", "skipped"]),
        st.tuples(COUNTS, COUNTS),
        COUNTS,
        st.sampled_from(["target", "ignore", "standard"]),
        NAMES,
    )
    return ModelReport(
        source=draw(NAMES),
        revision=draw(st.one_of(st.none(), NAMES)),
        verdict=verdict,
        summary=summary_of(verdict, verdicts, found),
        findings=found,
        declared=draw(st.dictionaries(NAMES, VALUES, max_size=3)),
        observed=draw(st.dictionaries(NAMES, VALUES, max_size=3)),
        resolution=tuple(draw(st.lists(resolution, max_size=3))),
        stats=draw(st.builds(Stats, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)),
        verdicts=verdicts,
        tiers=tiers,
    )


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """A run over a few models."""
    targets = tuple(draw(st.lists(TARGETS, min_size=1, max_size=2, unique=True)))
    return Report(targets, tuple(draw(st.lists(models(targets), max_size=3))))


def unopened(summary: str) -> ModelReport:
    """A model of which nothing could be read."""
    return ModelReport("org/gone", None, Verdict.UNVERIFIED, summary)
