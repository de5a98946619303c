"""The rules that judge a dry load (QG7xx): what they say of its outcomes, and when."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from quantgate.findings import DRY_LOAD, Outcome, Severity, Verdict
from quantgate.report.as_json import to_json
from quantgate.report.from_json import load_report
from quantgate.report.markdown import to_markdown
from quantgate.report.model import Report
from quantgate.report.sarif import to_sarif
from quantgate.rules import rules_of
from quantgate.runner import chosen
from quantgate.targets import Target
from quantgate.vllm.dry_load.join import joined
from quantgate.vllm.dry_load.result import DryLoad, DryOutcome, SilentFault
from tests.support import report_samples as samples

if TYPE_CHECKING:
    from quantgate.findings import Finding

TARGET = Target("0.32.0", "sm90", 1)


def load(outcome: str, *silent: SilentFault, target: Target = TARGET, **more: Any) -> DryLoad:
    """A dry load with this outcome."""
    return DryLoad(source="m", target=target, outcome=DryOutcome(outcome), silent=silent, **more)


def found(of: DryLoad, *headers: Finding) -> list[Finding]:
    """The dry load's own findings beside those of the headers tier."""
    model = joined(samples.model(*headers, verdict=Verdict.PASS), of)
    return [f for f in model.findings if f.tier == DRY_LOAD]


FULL = {"phase": "load", "exception": "KeyError", "message": "'a\nb'", "where": "llama.py:1"}
# Rule → (a load it speaks of, what it says, a load that looks alike and is none of its business).
CASES: dict[str, tuple[DryLoad, dict[str, Any], DryLoad]] = {
    "QG701": (
        load("fails", **FULL, tensor="model.layers.0.up.weight"),
        {
            "message": "While it loads the weights, vLLM 0.32.0 stops with KeyError: 'a b'.",
            "tensor": "model.layers.0.up.weight",
            "found": "raised at llama.py:1",
            "outcome": Outcome.FAILS,
        },
        load("unknown", **FULL, reason="the kernel x is not simulated"),
    ),
    "QG702": (
        load("silent", SilentFault("partial", 2, ("a.0.s: 3 of 4 loaded", "a.1.s: 3 of 4 loaded"))),
        {"pattern": "a.*.s", "count": 2, "found": "3 of 4 loaded", "outcome": Outcome.SILENT},
        load("silent", SilentFault("dropped", 1, ("a.0.s",))),
    ),
    "QG703": (
        load("silent", SilentFault("dropped", 900, ("a.0.s", "a.1.s"))),
        {
            "message": "vLLM 0.32.0 loads this model without an error and loads these tensors "
            "into nothing: 900 in all.",
            "outcome": Outcome.SILENT,
        },
        load("silent", SilentFault("miscast", 1, ("a.0.s",))),
    ),
    "QG704": (
        load("silent", SilentFault("miscast", 1, ("a.0.s: int32 into bfloat16",))),
        {"tensor": "a.0.s", "found": "int32 into bfloat16", "outcome": Outcome.SILENT},
        load("silent", SilentFault("truncated", 1, ("a.0.s",))),
    ),
}


def test_every_rule_has_cases() -> None:
    """The rules of the tier are those with cases here."""
    assert {r.id for r in rules_of(DRY_LOAD)} == CASES.keys()


@pytest.mark.parametrize("rule", CASES)
def test_rule(rule: str) -> None:
    """Each rule says what its case expects, as an error; of its near miss it says nothing."""
    said, expected, near = CASES[rule]
    (finding,) = found(said)
    assert (finding.rule, finding.severity) == (rule, Severity.ERROR)
    assert {key: getattr(finding, key) for key in expected} == expected
    assert rule not in {f.rule for f in found(near)}


def test_a_clean_load_has_no_finding() -> None:
    """Nothing is found where nothing went wrong, or nothing could be told."""
    assert found(load("loads")) == []
    assert found(load("unknown", reason="it hung")) == []


def test_rank_is_named() -> None:
    """In a group of several, the finding names the rank that it befell."""
    (finding,) = found(
        load("fails", target=Target("0.32.0", "sm90", 4), rank=3, phase="init", exception="E")
    )
    assert finding.message == "While it builds the model, vLLM 0.32.0 stops (rank 3) with E."


@pytest.mark.parametrize("outcome", [Outcome.FAILS, Outcome.CONDITIONAL])
def test_what_a_rule_explains_is_not_told_twice(outcome: Outcome) -> None:
    """An error of the headers tier with the same outcome, or under a condition, is told alone."""
    known = samples.finding(severity=Severity.ERROR, outcome=outcome)
    assert found(load("fails", **FULL), known) == []


def test_another_outcome_is_told_beside() -> None:
    """That vLLM stops is told where the rules only know that it would be silently wrong."""
    known = samples.finding(severity=Severity.ERROR, outcome=Outcome.SILENT)
    assert [f.rule for f in found(load("fails", **FULL), known)] == ["QG701"]


def test_ignored_rule_is_not_told_and_the_verdict_stays() -> None:
    """Leaving out a rule of the tier hides its finding, not what the tier said."""
    rules = chosen(DRY_LOAD, frozenset(), frozenset({"QG701"}))
    model = joined(samples.model(verdict=Verdict.PASS), load("fails", **FULL), rules)
    assert (model.findings, model.verdict) == ((), Verdict.FAIL)


def test_findings_reach_every_form_of_the_report() -> None:
    """JSON, comment and SARIF have the finding, and JSON brings it back as it was."""
    said = load("fails", **FULL, tensor="model.layers.0.up.weight")
    report = Report((TARGET,), (joined(samples.model(verdict=Verdict.PASS), said),))
    assert load_report(json.dumps(to_json(report))).models[0].findings == report.models[0].findings
    assert "QG701" in to_markdown(report)
    (result,) = to_sarif(report)["runs"][0]["results"]
    assert (result["ruleId"], result["properties"]["tier"]) == ("QG701", "dry-load")
