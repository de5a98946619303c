"""Settings are the action's inputs: the same names everywhere, and all errors told at once."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from quantgate.findings import Severity
from quantgate.settings import Settings, SettingsError, input_name
from quantgate.targets import NEWEST, Target

ROOT = Path(__file__).parents[2]
INPUTS = [input_name(f.name) for f in fields(Settings)]


def read(**inputs: str) -> Settings:
    """Settings as the runner would hand over these inputs, `fail_on` for `fail-on`."""
    return Settings.from_environment(
        {f"INPUT_{input_name(k).upper()}": v for k, v in inputs.items()}
    )


def action() -> dict:
    return yaml.safe_load((ROOT / "action.yml").read_text())


def rows(heading: str) -> dict[str, str]:
    """First to second cell of the table under a heading of docs/action.md."""
    section = (ROOT / "docs/action.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.+?) \|", section, re.MULTILINE))


def test_the_fields_are_the_inputs_of_the_action():
    """Every input has a field and every field an input, in the same order."""
    assert list(action()["inputs"]) == INPUTS


def test_the_documentation_has_every_input():
    """The table of inputs lists exactly the inputs that work."""
    assert list(rows("Inputs")) == INPUTS


def test_the_documentation_has_every_output():
    """The table of outputs lists exactly the outputs of action.yml."""
    assert list(rows("Outputs")) == list(action()["outputs"])


def test_the_action_holds_no_default():
    """A default in action.yml would be a second place for it; only the token comes from there."""
    defaults = {name: i["default"] for name, i in action()["inputs"].items() if i["default"]}
    assert defaults == {"github-token": "${{ github.token }}"}


def test_every_input_is_optional():
    """The action runs without any input."""
    assert not any(i["required"] for i in action()["inputs"].values())


def test_nothing_given_means_the_defaults():
    """Empty and blank inputs are what the runner hands over for inputs that were not given."""
    assert read(**dict.fromkeys([f.name for f in fields(Settings)], " \n")) == Settings()


def test_every_input_is_read():
    """Each input reaches its field, lists by lines and rules by commas or spaces."""
    settings = read(
        models="models/a b\n\n models/c \nmodels/c\n",
        fail_on="Warning",
        targets="vllm=0.33.0,gpu=sm90\ntp=2",
        report_path="out/report",
    )
    assert settings == Settings(
        models=("models/a b", "models/c"),
        fail_on=Severity.WARNING,
        targets=(Target("0.33.0", "sm90"), Target(NEWEST, "", 2)),
        report_path="out/report",
    )


def test_never_fails_on_nothing():
    """`never` is the absence of a severity."""
    assert read(fail_on="never").fail_on is None


def test_rules_are_known_by_id_and_by_name(monkeypatch):
    """Both spellings give the id."""
    known = {"QG101": "QG101", "truncated-file": "QG102"}

    class Rule:
        def __init__(self, rule_id: str) -> None:
            self.id = rule_id

    monkeypatch.setattr(
        "quantgate.settings.find_rule", lambda w: Rule(known[w]) if w in known else None
    )
    settings = read(select="QG101, truncated-file", ignore="QG101\nQG101")
    assert settings.select == {"QG101", "QG102"}
    assert settings.ignore == {"QG101"}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("fail_on", "info", "input fail-on: 'info' is none of error, warning, never"),
        ("targets", "gpu=h100", "input targets: target 'gpu=h100': gpu='h100' is not one of"),
        ("select", "QG000", "input select: no such rule: 'QG000'"),
        ("ignore", "nonsense, QG000", "input ignore: no such rule: 'nonsense', 'QG000'"),
        ("report_path", "a\nb", r"input report-path: 'a\nb' is not a path"),
    ],
)
def test_a_bad_value_is_told_with_its_input(field: str, value: str, said: str):
    """The message begins with the name that stands in the workflow."""
    with pytest.raises(SettingsError) as caught:
        read(**{field: value})
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(said)


def test_all_bad_values_are_told_at_once():
    """Nobody has to run the workflow once per mistake."""
    with pytest.raises(SettingsError) as caught:
        read(fail_on="maybe", targets="cpu", select="?")
    assert [p.split(":")[0] for p in caught.value.problems] == [
        "input fail-on",
        "input targets",
        "input select",
    ]
