"""A report compared with the one before: new, fixed, there before, or nothing said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantgate.findings import Verdict
from quantgate.report.compare import Change, compare_reports
from quantgate.report.markdown import MINIMUM_BUDGET, to_markdown
from quantgate.report.model import Report, TierResult
from tests.support import report_samples as samples
from tests.support.gfm import skeleton
from tests.support.report_samples import finding, note, old_gpu, split_ignore
from tests.support.report_strategies import unopened


def run(*findings, **changes) -> Report:
    """One model with these findings."""
    return Report((samples.TARGET,), (samples.model(*findings, **changes),))


def test_findings_are_new_fixed_or_existing() -> None:
    """Matched by rule, pattern and model; another count or message is the same finding."""
    before = run(finding(count=7, message="Other words."), split_ignore(), old_gpu())
    compared = compare_reports(run(finding(), note()), before)

    (model,) = compared.models.values()
    assert model.of(finding()) is Change.EXISTING
    assert model.of(note()) is Change.NEW
    assert model.of(old_gpu()) is None
    assert (compared.new, compared.existing) == (1, 1)
    assert compared.fixed == (split_ignore(), old_gpu())


def test_comment_tells_what_changed() -> None:
    """The comparison is one line, marks in the table, and a list of what is gone."""
    text = to_markdown(run(finding(), note()), before=run(finding(), split_ignore(), old_gpu()))

    assert "\nAgainst the base: 1 new finding, 2 fixed, 1 there before.\n" in text
    assert "QG401.md) existing |" in text
    assert "QG203.md) **new** |" in text
    assert "<details><summary>Fixed: 2 findings</summary>" in text


def test_green_again_says_what_was_repaired() -> None:
    """A model that passes now names what it no longer has."""
    text = to_markdown(run(verdict=Verdict.PASS), before=run(finding()))

    assert text.startswith("<!-- quantgate:report -->\n### ✅ quantgate: no fault in")
    assert "Against the base: 1 fixed." in text
    assert "QG401.md) missing-weight-scale" in text


@pytest.mark.parametrize(
    ("now", "before"),
    [
        (run(finding()), Report((), ())),
        (run(finding()), run(source="org/other")),
        (run(finding()), Report((), (replace(unopened("429"), source="org/model-FP8"),))),
        (run(finding(tier="smoke"), tiers=(TierResult("smoke", Verdict.FAIL),)), run()),
        (run(verdict=Verdict.UNVERIFIED), run(finding())),
    ],
    ids=["nothing before", "other model", "not read before", "other tier", "not read now"],
)
def test_nothing_is_said_where_nothing_can_be_compared(now: Report, before: Report) -> None:
    """What was not looked at is neither new nor fixed."""
    assert to_markdown(now, before=before) == to_markdown(now)


def test_several_models_are_told_apart() -> None:
    """The total stands on top, each model has its own line."""
    now = samples.mixed()
    before = Report(now.targets, (samples.model(finding(), source="org/broken-FP8"),))
    text = to_markdown(now, before=before)

    assert text.count("Against the base: 2 new findings, 1 there before.") == 2
    assert "Against" not in to_markdown(now)


def test_fixed_findings_keep_the_budget() -> None:
    """However much was repaired, the comment fits."""
    text = to_markdown(
        run(verdict=Verdict.PASS), before=samples.many_errors(3_000), budget=MINIMUM_BUDGET
    )

    assert len(text.encode()) <= MINIMUM_BUDGET
    assert "3,001 fixed" in text


@pytest.mark.parametrize("text", samples.HOSTILE.values(), ids=samples.HOSTILE.keys())
def test_names_of_before_are_inert(text: str) -> None:
    """What the base calls things is a stranger's text too."""
    now = run(verdict=Verdict.PASS)
    shown = to_markdown(now, before=run(finding(pattern=text, name=text, docs="")))
    plain = to_markdown(now, before=run(finding(pattern="name", name="name", docs="")))

    assert skeleton(shown) == skeleton(plain)
