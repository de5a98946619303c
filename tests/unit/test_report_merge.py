"""Reports of tiers, targets and jobs joined into one that is never greener than its parts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from quantgate.cli import main
from quantgate.findings import Verdict, worst
from quantgate.report.as_json import to_json_text
from quantgate.report.from_json import load_report
from quantgate.report.markdown import to_markdown
from quantgate.report.merge import merge_reports
from quantgate.report.model import ModelReport, Report, Stats, TierResult
from quantgate.report.text import to_text
from quantgate.targets import Target
from tests.support import report_samples as samples
from tests.support.report_strategies import reports, unopened

if TYPE_CHECKING:
    from pathlib import Path

# Reports are large: making a failing one smaller takes minutes.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
OTHER = Target("0.30.0", "sm80", 2)


def headers(*findings: Any, verdict: Verdict = Verdict.PASS, **changes: Any) -> Report:
    """What the first tier says, for one target."""
    verdicts = ((str(samples.TARGET), verdict),)
    model = samples.model(*findings, verdict=verdict, verdicts=verdicts, **changes)
    return Report((samples.TARGET,), (model,))


def dry(verdict: Verdict = Verdict.PASS, *findings: Any, **changes: Any) -> Report:
    """What the dry load says about the same model."""
    tier = TierResult("dry-load", verdict, "vLLM loaded all.", {"memory": "1.2 GB"})
    model = samples.model(
        *findings,
        verdict=verdict,
        tiers=(tier,),
        declared={},
        observed={},
        resolution=(),
        stats=Stats(requests=2, seconds=30.0),
        **changes,
    )
    return Report((samples.TARGET,), (model,))


def test_tiers_of_a_model_are_one_model() -> None:
    """Both tiers are named, the facts are those of the headers, requests and times add up."""
    model = merge_reports([headers(), dry()]).models[0]

    assert model.tier_names == ("headers", "dry-load")
    assert model.verdict is Verdict.PASS
    assert (model.declared, model.resolution) == (samples.DECLARED, samples.RESOLUTION)
    assert (model.stats.tensors, model.stats.requests) == (742, 7)


def test_worst_verdict_wins() -> None:
    """What the dry load finds blocks, though the headers are in order, and the sentence follows."""
    found = samples.finding(tier="dry-load")
    report = merge_reports([headers(), dry(Verdict.FAIL, found)])

    assert report.verdict is Verdict.FAIL
    assert report.models[0].findings == (found,)
    assert "compute wrong results" in report.models[0].summary
    text = to_markdown(report)
    assert "- ✅ check of configs and headers: passed\n- ❌ dry load" in text
    assert "dry load (vLLM's own loader, no weights): failed. vLLM loaded all." in to_text(report)


def test_finding_of_one_run_holds_for_its_targets_only() -> None:
    """Without targets a finding holds for its whole run, which is not the whole of both."""
    one = headers(samples.finding(), verdict=Verdict.FAIL)
    good = samples.model(verdict=Verdict.PASS, verdicts=((str(OTHER), Verdict.PASS),))
    report = merge_reports([one, Report((OTHER,), (good,))])

    assert report.targets == (samples.TARGET, OTHER)
    assert [f.targets for f in report.models[0].findings] == [(str(samples.TARGET),)]
    assert dict(report.models[0].verdicts) == {
        str(samples.TARGET): Verdict.FAIL,
        str(OTHER): Verdict.PASS,
    }
    assert "does not work in vLLM 0.33.0" in report.models[0].summary


def test_equal_findings_of_two_targets_are_one() -> None:
    """The same fault in two runs is told once, for both targets."""
    bad = samples.model(samples.finding())
    report = merge_reports([Report((samples.TARGET,), (bad,)), Report((OTHER,), (bad,))])

    assert [f.targets for f in report.models[0].findings] == [(str(samples.TARGET), str(OTHER))]


def test_other_revision_is_another_model() -> None:
    """Tiers that saw different commits of one repository do not vouch for each other."""
    report = merge_reports([headers(), dry(revision="0" * 40)], tiers=["dry-load"])

    assert [m.verdict for m in report.models] == [Verdict.UNVERIFIED, Verdict.PASS]


def test_missing_parts_are_unverified() -> None:
    """A tier or a model that was expected and did not arrive blocks, and says so."""
    report = merge_reports([headers()], models=["org/other"], tiers=["headers", "dry-load"])

    assert [m.verdict for m in report.models] == [Verdict.UNVERIFIED] * 2
    assert "not verified. No result arrived." in to_markdown(report)
    assert "Configs and tensor headers only" in to_markdown(report)
    assert "vLLM's own loader without weights" in to_markdown(merge_reports([headers(), dry()]))
    assert "No report on this model arrived." in to_text(report)
    assert merge_reports([headers()], tiers=["headers"]).verdict is Verdict.PASS
    assert merge_reports([]).verdict is Verdict.UNVERIFIED


def test_red_model_with_a_missing_tier_stays_red() -> None:
    """A certain fault says more than an answer that did not come."""
    report = merge_reports([headers(samples.finding(), verdict=Verdict.FAIL)], tiers=["smoke"])

    assert report.verdict is Verdict.FAIL
    assert [t.verdict for t in report.models[0].tiers] == [Verdict.FAIL, Verdict.UNVERIFIED]


def test_reason_of_an_unopened_tier_is_kept() -> None:
    """Where one tier could not open the model, its reason stands beside the other's result."""
    gone = replace(unopened("The Hub said 429 to the end."), source="org/model-FP8")
    report = merge_reports([Report((samples.TARGET,), (gone,)), dry()])

    assert len(report.models) == 1
    assert report.verdict is Verdict.UNVERIFIED
    assert "429" in to_markdown(report)


@settings(max_examples=12, deadline=None, phases=NO_SHRINKING)
@given(st.lists(reports(), max_size=3))
def test_merging_is_never_greener_and_can_be_read_back(parts: list[Report]) -> None:
    """The verdict is the worst of all parts, every finding is there, and the JSON is a report."""
    merged = merge_reports(parts)
    again = load_report(to_json_text(merged))
    models: list[ModelReport] = [m for r in parts for m in r.models]

    assert to_markdown(again) == to_markdown(merged)
    if models:
        assert merged.verdict is worst(m.verdict for m in models)
    assert {(f.rule, f.message, f.tier) for m in models for f in m.findings} == {
        (f.rule, f.message, f.tier) for m in merged.models for f in m.findings
    }


def test_one_report_is_unchanged() -> None:
    """Joining a single report gives the same report."""
    report = samples.mixed()

    assert merge_reports([report]) == report


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Three report files: two tiers of a model that pass, and one that fails."""
    parts = {"headers": headers(), "dry": dry(), "bad": samples.mixed()}
    for name, report in parts.items():
        (tmp_path / f"{name}.json").write_text(to_json_text(report))
    return tmp_path


def test_command_joins_files(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code and forms are those of a check."""
    good = [str(files / "headers.json"), str(files / "dry.json")]

    assert main(["report", *good, "--expect-tier", "dry-load", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["tiers"][1]["tier"] == "dry-load"
    assert main(["report", *good, str(files / "bad.json"), "--markdown", str(files / "r")]) == 1
    assert (files / "r").read_text().startswith("<!-- quantgate:report -->")
    assert main(["report", *good, "--expect-model", "org/other"]) == 3


@pytest.mark.parametrize("content", [None, b"", b"\xff", b'{"schema_version": 1}'])
def test_missing_file_is_unverified(
    files: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job whose file is missing or broken may have found anything."""
    if content is not None:
        (files / "part.json").write_bytes(content)

    assert main(["report", str(files / "headers.json"), str(files / "part.json")]) == 3
    assert "This part of the report is missing" in capsys.readouterr().out
