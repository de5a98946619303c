"""The action in real workflows, run by act on a real engine."""

from __future__ import annotations

import json
from pathlib import Path

WORKFLOWS = Path(__file__).parent / "workflows"
EXAMPLE = Path(__file__).parents[2] / "examples/workflow.yml"


def test_a_good_model_passes_and_the_next_step_reads_the_outputs(workflow):
    """The job goes on; the step that follows sees verdict, counts and both report files."""
    done = workflow(WORKFLOWS / "gate.yml", "good")
    assert done.code == 0, done.log
    assert json.loads(done.line("outputs: ")) == {
        "verdict": "pass",
        "errors": "0",
        "warnings": "0",
        "models-checked": "1",
        "report-path": "out/report.md",
        "json-path": "out/report.json",
        "sarif-path": "out/report.sarif",
    }
    assert "✅" in done.line("report: ")
    assert done.line("json: ").startswith('{  "schema_version": 1')


def test_a_broken_model_fails_the_job_and_says_why(workflow):
    """Exit code 1, annotations in the log, the summary for the job's page, and outputs."""
    done = workflow(WORKFLOWS / "gate.yml", "broken")
    assert done.code == 1, done.log
    assert "exit with `FAILURE`: 1" in done.log, done.log
    place = "::error file=models/broken/config.json,line=25,"
    assert f"{place}title=QG401 bits-mismatch in models/broken::" in done.log, done.log
    outputs = json.loads(done.line("outputs: "))
    assert (outputs["verdict"], outputs["models-checked"]) == ("fail", "2")
    assert int(outputs["errors"]) > 0
    headline = done.line("report: ")
    assert "❌" in headline
    # act shows the job summary in the log, GitHub on the page of the run.
    assert done.log.count(f"\n{headline}\n") == 1, done.log


def test_a_bad_input_fails_the_job_with_its_name(workflow):
    """Exit code 2 and a message that names the input."""
    done = workflow(WORKFLOWS / "gate.yml", "unusable")
    assert done.code == 1, done.log
    assert "exit with `FAILURE`: 2" in done.log, done.log
    assert "input fail-on: 'maybe' is none of error, warning, never" in done.log


def test_the_example_finds_both_models_and_fails(workflow):
    """The workflow to paste works as it stands, without any input naming a model."""
    done = workflow(EXAMPLE, "quantgate")
    assert done.code == 1, done.log
    assert "PASS models/good" in done.log
    assert "FAIL models/broken" in done.log
