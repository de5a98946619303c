"""A dry load in the report, beside what the rules say, and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quantgate.cli import main
from quantgate.findings import Outcome, Severity, Verdict
from quantgate.report.as_json import to_json
from quantgate.report.from_json import load_report
from quantgate.report.model import Report
from quantgate.targets import NEWEST, Target
from quantgate.vllm.dry_load.compare import compare
from quantgate.vllm.dry_load.join import check_with_dry_load, joined
from quantgate.vllm.dry_load.result import DryLoad, DryOutcome, SilentFault
from tests.support import report_samples as samples
from tests.support.fake_child import vllm_python

if TYPE_CHECKING:
    from quantgate.findings import Finding

EXAMPLES = Path(__file__).parents[2] / "examples"
TARGET = Target("0.32.0", "sm90", 1)


def load(outcome: str, **more: Any) -> DryLoad:
    """A dry load with this outcome."""
    return DryLoad(source="m", target=TARGET, outcome=DryOutcome(outcome), **more)


def fault(outcome: Outcome, **more: Any) -> Finding:
    """An error of the headers tier."""
    return samples.finding(severity=Severity.ERROR, outcome=outcome, **more)


def test_both_say_it_works() -> None:
    """Without findings and with a clean load the tiers agree."""
    found = compare(load("loads"), [])
    assert (found.agrees, found.rules) == (True, ())


def test_rule_explains_the_failure() -> None:
    """The rule with the same outcome is named, and the other is not."""
    errors = [
        fault(Outcome.FAILS, rule="QG401", module="", tensor="", examples=("a.0.up",)),
        fault(Outcome.SILENT, rule="QG406"),
    ]
    assert compare(load("fails"), errors).rules == ("QG401",)


def test_rule_of_the_same_place_is_closer() -> None:
    """Of several rules with the outcome, the one about the tensor's module explains it."""
    errors = [
        fault(Outcome.FAILS, rule="QG401", module="model.layers.0.down", tensor=""),
        fault(Outcome.FAILS, rule="QG402", module="model.layers.3.up", tensor=""),
    ]
    assert compare(load("fails", tensor="model.layers.7.up.qweight"), errors).rules == ("QG402",)


@pytest.mark.parametrize("outcome", ["fails", "silent"])
def test_fault_that_no_rule_knows_is_a_disagreement(outcome: str) -> None:
    """A dry load that finds what the headers tier does not blocks, and says that one is wrong."""
    said = load(
        outcome, silent=(SilentFault("partial", 2, ("a", "b")),) if outcome == "silent" else ()
    )
    model = joined(samples.model(verdict=Verdict.PASS), said)
    assert model.verdict is Verdict.FAIL
    assert "one of the two is wrong" in model.tiers[1].summary
    assert {f.tier for f in model.findings} == {"dry-load"}
    assert model.tiers[1].facts["agrees with headers"] is False


def test_false_alarm_is_a_disagreement() -> None:
    """An error of the rules stays one where the dry load loads, and the report says so."""
    model = joined(samples.model(fault(Outcome.FAILS), verdict=Verdict.FAIL), load("loads"))
    assert model.verdict is Verdict.FAIL
    assert "one of the two is wrong" in model.tiers[1].summary


def test_findings_of_other_targets_are_not_compared() -> None:
    """An error that holds for another release does not disagree with this one's load."""
    elsewhere = fault(Outcome.FAILS, targets=("vllm=0.10.2,tp=1",))
    assert compare(load("loads"), [elsewhere]).agrees is True


def test_unknown_is_not_a_pass() -> None:
    """A dry load that could not tell leaves the model unverified, and compares with nothing."""
    model = joined(samples.model(verdict=Verdict.PASS), load("unknown", reason="it hung"))
    assert model.verdict is Verdict.UNVERIFIED
    said = "vLLM 0.32.0 on sm90: what vLLM does could not be told: it hung."
    assert model.tiers[1].summary == said
    assert model.summary.endswith("not verified.")
    assert "agrees with headers" not in model.tiers[1].facts


def test_report_survives_its_json() -> None:
    """The tier is read back from the JSON report as it was."""
    said = load("silent", silent=(SilentFault("uninitialised", 1, ("x",)),), log=("\x1b[31m", "ok"))
    model = joined(samples.model(verdict=Verdict.PASS), said)
    read = load_report(json.dumps(to_json(Report((TARGET,), (model,)))))
    assert read.models[0].tiers == model.tiers
    assert read.verdict is Verdict.FAIL


READY = "ready()\nfor model in job['models']:\n    done(model['index']{})\ntell('end')"


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`quantgate dry-load` writes both tiers into one JSON report; exit code 0 for a clean load."""
    python = vllm_python(tmp_path, READY.format(""))
    arguments = ["dry-load", str(EXAMPLES / "good"), "--vllm-python", python, "--json", "-"]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["targets"][0]["release"] == "0.32.0"
    assert [t["tier"] for t in report["models"][0]["tiers"]] == ["headers", "dry-load"]


def test_exit_code_of_a_fault_only_vllm_knows(tmp_path: Path) -> None:
    """Exit code 1 although no rule found anything."""
    python = vllm_python(tmp_path, READY.format(", outcome='fails', exception='KeyError'"))
    assert main(["dry-load", str(EXAMPLES / "good"), "--vllm-python", python]) == 1


@pytest.mark.parametrize("script", ["ready(); sys.exit(1)", "tell('refused', reason='no vLLM')"])
def test_exit_code_where_nothing_could_be_told(script: str, tmp_path: Path) -> None:
    """Exit code 3 where the child dies or refuses."""
    python = vllm_python(tmp_path, script)
    assert main(["dry-load", str(EXAMPLES / "good"), "--vllm-python", python]) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["m", "--gpu", "sm42"],
        ["m", "--gpu", "rocm"],
        ["m", "--json", "-", "--markdown", "-"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 for what cannot be meant."""
    assert main(["dry-load", *arguments]) == 2
    assert "Error" in capsys.readouterr().err


def test_check_with_a_dry_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`quantgate check --dry-load` loads for each GPU and size of its targets, in one report."""
    python = vllm_python(tmp_path, READY.format(", message=job['gpu']"))
    arguments = ["check", str(EXAMPLES / "good"), "--dry-load", "--vllm-python", python]
    targets = ["--target", "gpu=sm90", "--target", "gpu=sm100,tp=2", "--json", "-"]
    assert main([*arguments, *targets]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(t["release"], t["gpu"]) for t in report["targets"]] == [
        *((NEWEST, "sm90"), (NEWEST, "sm100")),
        *(("0.32.0", "sm90"), ("0.32.0", "sm100")),
    ]
    assert [t["tier"] for t in report["models"][0]["tiers"]] == ["headers", "dry-load"]


def test_check_with_a_dry_load_that_cannot_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No vLLM, or a GPU that is not simulated: one sentence and exit code 3."""
    python = vllm_python(tmp_path, "tell('refused', reason='no vLLM')")
    arguments = ["check", str(EXAMPLES / "good"), "--dry-load", "--vllm-python", python]
    assert main(arguments) == 3
    assert "no vLLM" in capsys.readouterr().err
    assert main([*arguments, "--target", "gpu=rocm"]) == 3
    assert "rocm is none of sm75" in capsys.readouterr().err


def test_explains_the_broken_example(tmp_path: Path) -> None:
    """The broken example's failure, as vLLM 0.32.0 tells it, is explained by our rules."""
    python = vllm_python(tmp_path, READY.format(", outcome='fails', phase='init'"))
    report = check_with_dry_load([str(EXAMPLES / "broken")], vllm_python=python)
    assert report.models[0].tiers[1].facts["rules"] == ["QG401", "QG501"]
