"""The action in a real workflow, run by act on a real engine: outputs, annotations, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

WORKFLOWS = Path(__file__).parent / "workflows"


def test_jobs_end_as_their_models_and_inputs_say(workflow):
    """A good model, a broken one and a bad input, in one job each."""
    done = workflow(WORKFLOWS / "gate.yml")
    assert done.code == 1, done.printed

    good = done.of("good")
    assert "FAILURE" not in good.log
    assert json.loads(good.line("outputs: ")) == {
        "verdict": "pass",
        "errors": "0",
        "warnings": "0",
        "models-checked": "1",
        "report-path": "out/report.md",
        "json-path": "out/report.json",
        "sarif-path": "out/report.sarif",
    }
    assert "✅" in good.line("report: ")
    assert good.line("json: ").startswith('{  "schema_version": 1')

    broken = done.of("broken")
    assert "exit with `FAILURE`: 1" in broken.log
    place = "::error file=models/broken/config.json,line=25,"
    assert f"{place}title=QG401 bits-mismatch in models/broken::" in broken.log
    outputs = json.loads(broken.line("outputs: "))
    assert (outputs["verdict"], outputs["models-checked"]) == ("fail", "2")
    assert int(outputs["errors"]) > 0
    headline = broken.line("report: ")
    assert "❌" in headline
    # act shows the job summary in the log, GitHub on the page of the run.
    assert done.log.count(f"\n{headline}\n") == 1

    unusable = done.of("unusable")
    assert "exit with `FAILURE`: 2" in unusable.log
    assert "input fail-on: 'maybe' is none of error, warning, never" in unusable.log
