"""The report as JSON follows its schema, whatever the model holds."""

from __future__ import annotations

import json
from importlib import resources

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgate import __version__
from quantgate.findings import Confidence, Outcome, Severity, Verdict
from quantgate.report.as_json import MAX_DEPTH, to_json, to_json_text
from quantgate.report.model import Report
from tests.support import report_samples as samples

SCHEMA = json.loads(resources.files("quantgate.report").joinpath("schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def objects(schema: object):
    """Every object schema within a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            yield schema
        for value in schema.values():
            yield from objects(value)


def test_schema_is_one_and_closed() -> None:
    """The schema itself is valid, and no object of ours admits unknown fields."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)

    assert all(o["additionalProperties"] is False for o in objects(SCHEMA))
    assert len(list(objects(SCHEMA))) == 9


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (("model", "verdict"), Verdict),
        (("finding", "severity"), Severity),
        (("finding", "outcome"), Outcome),
        (("finding", "confidence"), Confidence),
    ],
)
def test_schema_knows_every_word(path: tuple[str, str], kind: type) -> None:
    """The enumerations of the schema are those of the code."""
    assert SCHEMA["$defs"][path[0]]["properties"][path[1]]["enum"] == [k.value for k in kind]


@pytest.mark.parametrize("case", samples.CASES)
def test_reports_follow_the_schema(case: str) -> None:
    """Every sample is valid, and what is written is what `to_json` gives."""
    report = samples.CASES[case]()
    value = to_json(report)

    VALIDATOR.validate(value)
    assert json.loads(to_json_text(report)) == value
    assert value["tool"] == {"name": "quantgate", "version": __version__}


def test_schema_refuses_what_is_not_a_report() -> None:
    """A field too many or too few, or a wrong word, is not a report."""
    value = to_json(samples.one_error())
    finding = value["models"][0]["findings"][0]
    for name, bad in (("severity", "fatal"), ("rule", "QG4"), ("count", 0), ("more", 1)):
        broken = json.loads(json.dumps(value))
        broken["models"][0]["findings"][0][name] = bad
        assert not VALIDATOR.is_valid(broken)
    del finding["patch"]
    assert not VALIDATOR.is_valid(value)


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_any_name_is_ascii_json(text: str) -> None:
    """Names survive the way to JSON and back, and cannot act on a terminal."""
    written = to_json_text(samples.with_text(text))

    assert written.isascii()
    assert "\x1b" not in written
    assert json.loads(written)["models"][2]["source"] == text


def test_values_that_json_lacks_become_text() -> None:
    """NaN, sets, tuples, objects and endless nesting are written as something JSON has."""
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    declared = {
        "nan": float("nan"),
        "inf": float("-inf"),
        "set": frozenset({"b", "a"}),
        "tuple": (1, None, True),
        "target": samples.TARGET,
        "deep": deep,
        1: 0.5,
    }
    report = Report((), (samples.model(declared=declared),))
    value = json.loads(to_json_text(report))["models"][0]["declared"]

    VALIDATOR.validate(to_json(report))
    assert json.dumps(value.pop("deep")).count("[") == MAX_DEPTH - 1
    assert value == {
        "nan": "nan",
        "inf": "-inf",
        "set": ["a", "b"],
        "tuple": [1, None, True],
        "target": "vllm=0.33.0,gpu=sm90,tp=1",
        "1": 0.5,
    }
