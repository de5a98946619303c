"""The report as SARIF: valid, inert, and put where the fault is.

`tests/data/sarif-2.1.0-rtm.5.json` is the official schema of SARIF 2.1.0 as SchemaStore publishes
it, copied from the npm package @microsoft/jest-sarif 1.0.0-beta.0 (MIT).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
from hypothesis import Phase, given, settings

from quantgate.cli import main
from quantgate.report.model import Report
from quantgate.report.places import MAX_CONFIG, Config, configs_in, place_of
from quantgate.report.sarif import MAX_RESULTS, to_sarif, to_sarif_text
from tests.support import report_samples as samples
from tests.support.build import healthy, write_checkpoint
from tests.support.report_strategies import reports, unopened

SCHEMA = json.loads((Path(__file__).parents[1] / "data/sarif-2.1.0-rtm.5.json").read_text())
VALIDATOR = jsonschema.Draft4Validator(SCHEMA)


def run_of(report: Report, **configs: Config) -> Any:
    """The only run of a valid SARIF file."""
    value = to_sarif(report, configs)
    VALIDATOR.validate(value)
    return value["runs"][0]


def texts(value: Any):
    """Every string within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)


@pytest.mark.parametrize("case", samples.CASES)
def test_samples_are_valid(case: str) -> None:
    """Every sample follows the official schema, and gives the same bytes again."""
    report = samples.CASES[case]()

    run = run_of(report)
    assert len(run["results"]) == sum(len(m.findings) for m in report.models)
    assert to_sarif_text(report) == to_sarif_text(report)
    assert to_sarif_text(report).isascii()


def assert_inert(run: Any) -> None:
    """No string of a result acts on a terminal, links anywhere or leaves the repository."""
    for text in texts([run["results"], run["invocations"]]):
        assert text.replace("\n", "").isprintable()
        assert not text.lstrip().startswith("::")
    for result in run["results"]:
        assert "](" not in result["message"]["text"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert urlsplit(uri)[:2] == ("", "")
        assert not uri.startswith("/")
        assert ".." not in unquote(uri).split("/")


@pytest.mark.parametrize("text", samples.HOSTILE.values(), ids=samples.HOSTILE.keys())
def test_hostile_names_are_inert(text: str) -> None:
    """No name links, colours, commands, or leads out of the repository."""
    assert_inert(run_of(samples.with_text(text)))


@settings(max_examples=20, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(reports())
def test_any_report_is_valid_and_inert(report: Report) -> None:
    """The same for arbitrary reports."""
    assert_inert(run_of(report))


@pytest.mark.parametrize("source", ["../../etc", "/etc/model", "c:\\model\\..\\x", "https://x/y"])
def test_address_stays_in_the_repository(source: str) -> None:
    """A source that is a path or address elsewhere becomes a relative address."""
    run = run_of(Report((), (samples.model(samples.finding(), source=source),)))

    assert_inert(run)


def test_finding_is_at_its_key_or_weight_file() -> None:
    """The line of the patched key, the weight file of a file's finding, else the declaration."""
    text = '{\n "quantization_config": {\n  "ignore": []}}'
    unread = samples.unverified().models[0].findings[0]
    model = samples.model(samples.split_ignore(), unread, samples.note())
    configs = {"org/model-FP8": Config("m/config.json", text)}
    report = Report((), (model,))
    places = [
        (p["artifactLocation"]["uri"], p["region"]["startLine"])
        for r in to_sarif(report, configs)["runs"][0]["results"]
        for p in [r["locations"][0]["physicalLocation"]]
    ]

    assert places == [
        ("m/config.json", 3),
        ("m/model-00002-of-00004.safetensors", 1),
        ("m/config.json", 2),
    ]
    assert place_of(unread, model, {}) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"quantization_config": [1]}', "[" * 50_000])
def test_unusable_config_has_no_line(text: str) -> None:
    """Whatever the text of the config is, the finding stays on the file."""
    model = samples.model(samples.split_ignore())
    place = place_of(model.findings[0], model, {model.source: Config("config.json", text)})

    assert place is not None
    assert (place.file, place.line) in {("config.json", 0), ("config.json", 1)}


def test_rules_carry_their_page() -> None:
    """A rule has its name, its page as help, its address; one that we lack has the address."""
    other = samples.finding(rule="QG999", pattern="x")
    rules = run_of(Report((), (samples.model(samples.finding(), other),)))["tool"]["driver"][
        "rules"
    ]

    assert [r["id"] for r in rules] == ["QG401", "QG999"]
    assert "## What it checks" in rules[0]["help"]["markdown"]
    assert rules[1] == {
        "id": "QG999",
        "helpUri": "https://github.com/quantgate/quantgate/blob/main/docs/rules/QG999.md",
    }


def test_fingerprint_is_of_rule_pattern_and_model() -> None:
    """Another count or message is the same finding, another model is not."""

    def fingerprint(report: Report) -> str:
        return run_of(report)["results"][0]["partialFingerprints"]["quantgate/v1"]

    first = Report((), (samples.model(samples.finding()),))
    again = Report((), (samples.model(samples.finding(count=1, message="x", examples=())),))
    other = Report((), (replace(first.models[0], source="org/other"),))

    assert fingerprint(first) == fingerprint(again) != fingerprint(other)


def test_unread_model_is_a_notification() -> None:
    """A model without findings that could not be read is not silent."""
    run = run_of(Report((), (unopened("The Hub said 429 to the end."),)))

    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "429" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_results_are_limited_and_say_so() -> None:
    """GitHub shows the first thousands; the rest is counted, and the worst come first."""
    run = to_sarif(samples.many_errors(MAX_RESULTS + 9))["runs"][0]
    notes = run["invocations"][0]["toolExecutionNotifications"]

    assert len(run["results"]) == MAX_RESULTS
    assert {r["level"] for r in run["results"]} == {"error"}
    assert notes[0]["message"]["text"] == "10 more findings in the JSON report"


def test_configs_are_found_in_the_checkout_only(tmp_path: Path) -> None:
    """A link or path out of the checkout, a huge file and bytes that are no text are left out."""
    root = tmp_path / "root"
    for name, content in {
        "good": b"{}",
        "large": b" " * (MAX_CONFIG + 1),
        "bytes": b"\xff",
    }.items():
        (root / name).mkdir(parents=True)
        (root / name / "config.json").write_bytes(content)
    (tmp_path / "config.json").write_text("{}")
    (root / "link").mkdir()
    (root / "link/config.json").symlink_to(tmp_path / "config.json")
    names = ["good", "large", "bytes", "link", "..", str(tmp_path), "gone", "\x00", "x" * 9_999]

    found = configs_in(root, [samples.model(source=n) for n in names])

    assert found == {"good": Config("good/config.json", "{}")}


def test_command_writes_sarif(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check --sarif` points at the line of the wrong key in the model's config."""
    config, tensors = healthy("gptq")
    config["quantization_config"]["bits"] = 8
    write_checkpoint(tmp_path / "broken", config, {"model.safetensors": tensors})
    monkeypatch.chdir(tmp_path)

    assert main(["check", "broken", "--sarif", "-"]) == 1
    value = json.loads(capsys.readouterr().out)
    VALIDATOR.validate(value)
    place = value["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    line = place["region"]["startLine"]
    assert place["artifactLocation"]["uri"] == "broken/config.json"
    assert '"bits": 8' in (tmp_path / "broken/config.json").read_text().split("\n")[line - 1]
