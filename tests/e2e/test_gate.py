"""The reusable workflow, whole: headers, a smoke load in a real vLLM, and one verdict."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from benchmarks.smoke import SOUND, models
from quantgate.report.from_json import load_report
from tests.e2e.conftest import HERE, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.conftest import Workflow

WHOLE = HERE / "workflows/whole.yml"


@pytest.fixture
def repository(trained_base: Path, tmp_path: Path) -> Path:
    """A repository with a sound model and one that has a scale of NaN, and a report of its own."""
    made = dict(models(trained_base, tmp_path / "made", "pack"))
    folder = tmp_path / "repository"
    shutil.copytree(made[SOUND], folder / "models/sound")
    shutil.copytree(made["NaN scale"], folder / "models/nan")
    (folder / "quantgate-report").mkdir()
    (folder / "quantgate-report/report.json").write_text("{}")
    user = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for command in (("init", "-q"), ("add", "."), (*user, "commit", "-q", "-m", "Models")):
        assert run("git", *command, cwd=folder).returncode == 0
    return folder


@pytest.fixture
def gate(
    workflow: Callable[..., Workflow], repository: Path, vllm_python: str, tmp_path: Path
) -> Callable[..., tuple[Workflow, Path]]:
    """Run it; the runner for the smoke load is this machine, and artifacts are folders."""

    def start(python: str = vllm_python) -> tuple[Workflow, Path]:
        artifacts = tmp_path / "artifacts"  # where the fixture has them
        options = ("-P", "here=-self-hosted")
        said = {"vllm_python": python}
        done = workflow(WHOLE, "gate", payload=said, folder=repository, options=options)
        return done, artifacts

    return start


def test_a_model_that_talks_nonsense_is_blocked(gate: Callable[..., tuple[Workflow, Path]]):
    """Both models pass by their headers; the smoke load catches one, and the last job fails."""
    done, artifacts = gate()
    assert done.code == 1, done.log
    smoke = load_report((artifacts / "quantgate-smoke/report.json").read_text())
    verdicts = {m.source: m.verdict.value for m in smoke.models}
    assert verdicts == {"models/sound": "pass", "models/nan": "fail"}
    headers = json.loads((artifacts / "quantgate-headers/report.json").read_text())
    assert {m["verdict"] for m in headers["models"]} == {"pass"}
    assert "FAIL models/nan" in done.log
    assert "PASS models/sound" in done.log


def test_a_runner_without_vllm_closes_the_gate(gate: Callable[..., tuple[Workflow, Path]]):
    """The smoke job leaves no report, and the last job says that the models are unverified."""
    done, artifacts = gate("/nowhere/python")
    assert done.code == 1, done.log
    assert not (artifacts / "quantgate-smoke").exists()
    assert "smoke load (vLLM with the weights): not verified. No result arrived." in done.log
    assert "exit with `FAILURE`: 3" in done.log
