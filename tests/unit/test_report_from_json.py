"""A report read back is the report that was written, and a forged one gains nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgate.findings import Severity, Verdict
from quantgate.report import from_json
from quantgate.report.as_json import to_json, to_json_text
from quantgate.report.from_json import ReportError, load_report
from quantgate.report.markdown import MINIMUM_BUDGET, to_markdown
from quantgate.report.model import Report, TierResult
from quantgate.report.text import to_text
from quantgate.runner import check_models
from quantgate.targets import Target
from tests.support import report_samples as samples
from tests.support.build import healthy, write_checkpoint
from tests.support.report_strategies import reports, unopened


# Its summaries are a stranger's, and those are not taken over.
@pytest.mark.parametrize("case", [case for case in samples.CASES if case != "hostile"])
def test_samples_render_the_same_from_json(case: str) -> None:
    """Whatever a report looks like, its JSON holds all that the other forms show."""
    report = samples.CASES[case]()
    again = load_report(to_json_text(report))

    assert to_markdown(again) == to_markdown(report)
    assert to_text(again) == to_text(report)


@settings(max_examples=40, deadline=None)
@given(reports())
def test_any_report_renders_the_same_from_json(report: Report) -> None:
    """The same for arbitrary reports, at any size, and writing it again changes nothing."""
    text = to_json_text(report)
    again = load_report(text)

    assert to_json_text(again) == text
    for budget in (MINIMUM_BUDGET, 1 << 20):
        assert to_markdown(again, budget=budget) == to_markdown(report, budget=budget)


def test_real_report_comes_back_equal(tmp_path) -> None:
    """A report of the gate itself is equal after the way to JSON and back."""
    config, tensors = healthy("gptq")
    config["quantization_config"]["bits"] = 8
    write_checkpoint(tmp_path / "broken", config, {"model.safetensors": tensors})
    targets = (Target(), Target("0.30.0", "sm90", 2))
    report = check_models([str(tmp_path / "broken"), str(tmp_path / "gone")], targets)

    assert load_report(to_json_text(report)) == report


def test_reason_of_an_unopened_model_is_kept() -> None:
    """Where nothing could be read, the summary says why, and nothing else does."""
    report = Report((samples.TARGET,), (unopened("The Hub said 429 to the end."),))

    assert load_report(to_json_text(report)) == report


def forged(report: Report, **changes: Any) -> Report:
    """The report after somebody changed its first model in the JSON."""
    value = to_json(report)
    value["models"][0].update(changes)
    return load_report(json.dumps(value))


def test_verdict_is_not_believed() -> None:
    """A red model that calls itself green stays red, and so does its sentence."""
    honest = samples.one_error()
    report = forged(
        honest, verdict="pass", summary="All is well.", by_target={str(samples.TARGET): "pass"}
    )

    assert report.models[0].verdicts == ((str(samples.TARGET), Verdict.FAIL),)
    assert to_markdown(report) == to_markdown(honest)


def test_claim_can_only_make_it_worse() -> None:
    """A model that calls itself unverified is, and so is one of which a tier says so."""
    green = samples.passing()
    worse = TierResult("dry-load", Verdict.UNVERIFIED)
    tiers = to_json(Report((), (samples.model(verdict=Verdict.PASS, tiers=(worse,)),)))

    assert forged(green, verdict="unverified").verdict is Verdict.UNVERIFIED
    assert load_report(json.dumps(tiers)).verdict is Verdict.UNVERIFIED
    assert forged(green, by_target={str(samples.TARGET): "fail"}).verdict is Verdict.FAIL


def test_tier_is_judged_by_its_own_findings() -> None:
    """A dry load that found an error did not pass, and the headers beside it did."""
    found = samples.finding(tier="dry-load")
    tiers = (TierResult("headers", Verdict.PASS), TierResult("dry-load", Verdict.PASS))
    model = load_report(to_json_text(Report((), (samples.model(found, tiers=tiers),)))).models[0]

    assert [t.verdict for t in model.tiers] == [Verdict.PASS, Verdict.FAIL]
    assert model.tier_names == ("headers", "dry-load")


def test_link_leads_to_our_rules_only() -> None:
    """An address of the stranger's own, on GitHub too, is dropped."""
    value = to_json(samples.one_error())
    value["models"][0]["findings"][0]["docs"] = "https://github.com/evil/evil"
    report = load_report(json.dumps(value))

    assert report.models[0].findings[0].docs == ""
    assert "evil" not in to_markdown(report)


def broken(path: str, value: Any) -> str:
    """The JSON of a report with one value changed; `path` as `models.0.verdict`."""
    whole = to_json(samples.several_findings())
    *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    place: Any = whole
    for parent in parents:
        place = place[parent]
    place[last] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema_version", 2),
        ("tool.name", "other"),
        ("more", 1),
        ("targets.0.gpu", "h100"),
        ("targets.0.gpu", "sm90,tp=4"),
        ("targets.0.release", "0.33.0\n"),
        ("targets.0.release", "1" * 5_000 + ".0.0"),
        ("targets.0.tensor_parallel", True),
        ("models.0.verdict", "green"),
        ("models.0.source", None),
        ("models.0.by_target", {"vllm=x": "pass"}),
        ("models.0.by_target", {"tp=1": "pass"}),
        ("models.0.tiers", [{"tier": "guess", "verdict": "pass", "summary": "", "facts": {}}]),
        ("models.0.findings.0.rule", "QG401\n"),
        ("models.0.findings.0.count", 10**400),
        ("models.0.findings.0.unverified", "no"),
        ("models.0.findings.0.examples", ["a"] * 4),
        ("models.0.resolution.0.role", "<img>"),
        ("models.0.stats.files", -1),
    ],
)
def test_what_is_no_report_is_refused(path: str, value: Any) -> None:
    """One wrong value anywhere, and nothing of it is shown."""
    with pytest.raises(ReportError) as error:
        load_report(broken(path, value))

    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"schema_version": NaN}',
        '{"a": 1, "a": 2}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 10_000,
        '"\x1b[2J::error::"',
    ],
)
def test_what_is_not_json_is_refused(text: str) -> None:
    """No text makes the reader fail in another way, or gets out through its message."""
    with pytest.raises(ReportError) as error:
        load_report(text)

    assert str(error.value).isprintable()


def test_length_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report beyond the limit is not parsed."""
    text = to_json_text(samples.passing())
    monkeypatch.setattr(from_json, "MAX_BYTES", len(text))
    assert load_report(text).verdict is Verdict.PASS

    with pytest.raises(ReportError, match="longer than"):
        load_report(text + " ")


def test_deep_values_are_cut() -> None:
    """Facts may nest as JSON allows; nothing that renders them has to."""
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    report = load_report(broken("models.0.declared", {"deep": deep, "quant map": [1, {}]}))

    assert json.dumps(to_json(report)["models"][0]["declared"]).count("[") < 40
    assert to_markdown(report)


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    st.sampled_from(
        ["targets", "models", "models.0", "models.0.observed", "models.0.findings.0.patch"]
    ),
)
def test_any_json_is_a_report_or_refused(value: Any, path: str) -> None:
    """Whatever stands in a report, it is refused or can be shown."""
    try:
        report = load_report(broken(path, value))
    except ReportError:
        return

    assert to_markdown(report, budget=MINIMUM_BUDGET)
    assert report.count(Severity.ERROR) >= 0
