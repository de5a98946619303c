"""The config file of the gate: whose holds, what it accepts, and one that cannot be used."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from quantgate.config import parse_config
from quantgate.settings import Settings
from tests.support.github_server import COMMITS, Fault, GitHubServer
from tests.unit.conftest import CONFIG, Action


def test_a_pull_request_cannot_soften_its_own_gate(action: Action, github: GitHubServer, changed):
    """Severities, exceptions and inputs are those of the base branch; the report says so."""
    action.put("a", broken=True)
    changed("a/config.json", CONFIG)
    github.set_file(CONFIG, "fail-on: warning", COMMITS["base"])
    action.write(CONFIG, "fail-on: never\nsuppress: [{rule: QG401, reason: I want it.}]")
    assert action.pull_request() == 1
    assert f"touches `{CONFIG}`" in action.notes


def test_what_a_pull_request_adds_to_the_config_is_checked(
    action: Action, github: GitHubServer, changed
):
    """A line that is new is checked now, and not only after it has been merged."""
    for name in ("a", "b"):
        action.put(name)
    github.set_file(CONFIG, "models: [a]", COMMITS["base"])
    action.write(CONFIG, "models: [a, b]")
    changed(CONFIG)
    assert action.pull_request() == 0
    assert action.checked == ["b"]


def test_a_proposed_config_that_is_wrong_is_told_and_not_used(
    action: Action, github: GitHubServer, changed
):
    """The gate goes on with the one that is in force."""
    action.put("a")
    changed("a/config.json", CONFIG)
    action.write(CONFIG, "fail-on: maybe\nmodel: [a]")
    assert action.pull_request() == 0
    assert "cannot be used" in action.notes


def test_a_config_that_cannot_be_asked_for_stops_the_gate(
    action: Action, github: GitHubServer, changed
):
    """It may list models, or a stricter limit."""
    action.put("a")
    changed("a/config.json")
    github.faults += [Fault("GET", "/contents/", 403, "no")]
    assert action.pull_request() == 3
    assert "the base branch cannot be asked for .github/quantgate.yml" in action.log


def test_on_a_branch_its_own_config_holds(action: Action):
    """It went through a pull request already."""
    action.put("a", broken=True)
    action.write(CONFIG, "fail-on: never")
    assert action("schedule") == 0


def test_an_input_wins_over_the_config(action: Action):
    """What stands in the workflow is nearer."""
    action.put("a", broken=True)
    action.write(CONFIG, "fail-on: never")
    assert action("schedule", fail_on="error") == 1


def test_a_finding_is_accepted_with_a_reason(action: Action):
    """It stays in the report as a note that tells the reason, and no longer fails the job."""
    action.put("a", broken=True)
    action("schedule")
    rules = {f["rule"] for f in action.report["models"][0]["findings"]}
    accepted = "\n".join(f"- {{rule: {r}, model: 'a*', reason: Known}}" for r in sorted(rules))
    action.write(CONFIG, f"suppress:\n{accepted}\n- {{rule: QG101, reason: Old}}")
    assert action("schedule") == 0
    found = action.report["models"][0]
    assert {f["severity"] for f in found["findings"]} == {"info"}
    assert found["findings"][0]["message"].startswith("Accepted by this repository: Known. ")
    assert found["verdict"] == "pass"
    assert "accepts QG101, which was not found" in action.notes


def test_reports_of_other_tiers_are_judged_by_the_config_as_well(
    action: Action, github: GitHubServer
):
    """What one job has accepted and another has not is one note."""
    action.put("a", broken=True)
    action("schedule")
    raw = json.dumps(action.report)
    rules = {f["rule"] for f in action.report["models"][0]["findings"]}
    action.write(CONFIG, "suppress:\n" + "\n".join(f"- {{rule: {r}, reason: R}}" for r in rules))
    action("schedule")
    judged = action.report
    action.write("reports/1.json", json.dumps(judged))
    action.write("reports/2.json", raw)
    assert action("schedule", reports="reports/*.json") == 0
    found = action.report["models"][0]
    assert [f["message"] for f in found["findings"]] == [
        f["message"] for f in judged["models"][0]["findings"]
    ]
    assert found["verdict"] == "pass"


def test_what_could_not_be_read_cannot_be_accepted(action: Action):
    """Nobody has seen it."""
    action.put("a")
    (action.checkout / "a/model.safetensors").write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    )
    action("schedule")
    rules = {f["rule"] for f in action.report["models"][0]["findings"]}
    action.write(
        CONFIG, "suppress:\n" + "\n".join(f"- {{rule: {r}, reason: Known.}}" for r in rules)
    )
    assert rules
    assert action("schedule") == 3


def test_a_rule_may_weigh_otherwise(action: Action):
    """Severities of the config change the verdict and the exit code."""
    action.put("a", broken=True)
    action("schedule")
    rules = {f["rule"] for f in action.report["models"][0]["findings"]}
    action.write(CONFIG, "rules: {" + ", ".join(f"{r}: warning" for r in rules) + "}")
    assert action("schedule") == 0
    assert action.report["models"][0]["verdict"] == "warn"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is not a mapping"),
        ("model: a", "'model': none of models,"),
        ("models: [1]", "models: a list of texts is needed"),
        ("fail-on: maybe", "fail-on: 'maybe' is none of error, warning, never"),
        ("rules: {QG999: error}", "no such rule: 'QG999'"),
        ("rules: {QG401: off}", "to leave findings out, give a reason under suppress"),
        ("rules: [QG401]", "rules: a mapping"),
        ("suppress: QG401", "suppress: a list is needed"),
        ("suppress: [{rule: QG401}]", "suppress: entry 1: a reason is needed"),
        ("suppress: [{rule: QG401, reason: '  '}]", "rule, reason, model and where are texts"),
        ("suppress: [{rule: QG401, reason: x, why: y}]", "a mapping of rule, reason"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_config_that_cannot_be_used_is_told(action: Action, text: str, said: str):
    """Exit code 2, and the file is named."""
    action.put("a")
    action.write(CONFIG, text)
    assert action("schedule") == 2
    assert said in action.log
    assert CONFIG in action.log


def test_the_config_of_the_documentation_can_be_used():
    """Every key of it is understood, and every rule is there."""
    page = (Path(__file__).parents[2] / "docs/action.md").read_text()
    (text,) = [b for b in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "suppress:" in b]
    config = parse_config(text)
    assert config.models == ("models/*", "org/model@0123abc")
    assert len(config.policy.severities) == len(config.policy.suppressions) == 1
    assert Settings.from_environment({}, config.inputs).comment == "on-failure"
