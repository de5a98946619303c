"""The reusable workflow, whole: headers, dry load, a smoke load in a real vLLM, and one verdict."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.smoke import SOUND, models
from quantgate.report.from_json import load_report
from tests.e2e.conftest import HERE, run
from tests.support.github_server import COMMITS, REPOSITORY, GitHubServer, PullRequest
from tests.support.lfs_server import FakeLfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from quantgate.report.model import ModelReport
    from tests.e2e.conftest import Workflow

WHOLE = HERE / "workflows/whole.yml"
TOKEN = "Basic eC1hY2Nlc3MtdG9rZW46MDEyMzQ1Njc4OWFiY2RlZg=="  # the job's, as Git LFS sends it


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    """A GitHub with pull request 3, where a runner takes the smoke load at once."""
    with GitHubServer() as server:
        files = [f"models/{name}/config.json" for name in ("sound", "nan")]
        server.pulls[3] = PullRequest(files=dict.fromkeys(files, ("added", "")))
        server.add_jobs(gate__smoke_load="in_progress")
        yield server
    assert server.violations == []


@pytest.fixture
def lfs() -> Iterator[FakeLfs]:
    """Where the weights of the repository are, for those who have the job's token."""
    server = FakeLfs()
    server.wants_token = TOKEN
    with server.running():
        yield server


@pytest.fixture
def repository(trained_base: Path, tmp_path: Path, lfs: FakeLfs) -> Path:
    """A repository with a sound model and one that has a scale of NaN.

    The weights of the sound one are in Git LFS. A report and modules of its own must do nothing.
    """
    made = dict(models(trained_base, tmp_path / "made", "pack"))
    folder = tmp_path / "repository"
    for name, source in (("sound", SOUND), ("nan", "NaN scale")):
        shutil.copytree(made[source], folder / "models" / name)
    weights = folder / "models/sound/model.safetensors"
    weights.write_bytes(lfs.put(weights.name, weights.read_bytes()))
    # Modules that Python and pip would find here, if a job that has a token ran them so.
    (folder / "pip").mkdir()
    for name in ("venv.py", "argparse.py", "pip/__init__.py", "pip/__main__.py"):
        (folder / name).write_text("raise SystemExit('what is checked was run')")
    (folder / "quantgate-report").mkdir()
    (folder / "quantgate-report/report.json").write_text("{}")
    user = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for command in (
        ("init", "-q"),
        ("remote", "add", "origin", lfs.remote),
        ("add", "."),
        (*user, "commit", "-q", "-m", "Models"),
    ):
        assert run("git", *command, cwd=folder).returncode == 0
    return folder


@dataclass
class Gate:
    """The workflow; the runner for the smoke load is this machine, and artifacts are folders."""

    workflow: Callable[..., Workflow]
    repository: Path
    python: str
    github: GitHubServer
    lfs: FakeLfs
    artifacts: Path

    def __call__(self, *, source: str = REPOSITORY, **event: str) -> Workflow:
        """Run it for pull request 3 from a repository, with what it takes from the event."""
        head = {"sha": COMMITS["head"], "ref": "topic", "repo": {"full_name": source}}
        pull = {"number": 3, "base": {"sha": COMMITS["base"], "ref": "main"}, "head": head}
        said = {"image": "", "image_options": "", "dry_load": "", "vllm_python": self.python}
        return self.workflow(
            WHOLE,
            "gate",
            payload={"pull_request": pull, **said, **event},
            folder=self.repository,
            api=self.github.url,
            options=(
                *("-P", "here=-self-hosted"),
                *("--env", f"GITHUB_SERVER_URL={self.lfs.address}"),
                *("--env", "GITHUB_RUN_ID=77"),
            ),
        )

    def report(self, tier: str) -> dict[str, ModelReport]:
        """What the job of a tier left, by model."""
        text = (self.artifacts / f"quantgate-{tier}/report.json").read_text()
        return {m.source: m for m in load_report(text).models}

    def verdicts(self, tier: str) -> dict[str, str]:
        """The verdicts in that."""
        return {source: m.verdict.value for source, m in self.report(tier).items()}


@pytest.fixture
def gate(
    workflow: Callable[..., Workflow],
    repository: Path,
    vllm_python: str,
    github: GitHubServer,
    lfs: FakeLfs,
    tmp_path: Path,
) -> Gate:
    """The workflow on this machine."""
    artifacts = tmp_path / "artifacts"  # where the fixture has them
    return Gate(workflow, repository, vllm_python, github, lfs, artifacts)


def test_a_model_that_talks_nonsense_is_blocked(gate: Gate) -> None:
    """Both models pass by their headers; the smoke load catches one, and the last job fails."""
    done = gate()
    assert done.code == 1, done.log
    assert gate.verdicts("smoke") == {"models/sound": "pass", "models/nan": "fail"}, done.log
    assert set(gate.verdicts("headers").values()) == {"pass"}
    assert "FAIL models/nan" in done.log
    assert "PASS models/sound" in done.log
    assert "smoke runner" in done.printed
    (comment,) = gate.github.comments[3]
    assert "logits are not finite" in comment["body"]
    # The weights of the one, and of the other nothing, for both jobs.
    assert {s.path for s in gate.lfs.requests("storage")} == {
        f"/objects/{oid}" for oid in gate.lfs.objects
    }


def test_a_runner_without_vllm_closes_the_gate(gate: Gate) -> None:
    """The smoke job leaves no report, and the last job says that the models are unverified."""
    done = gate(vllm_python="/nowhere/python")
    assert done.code == 1, done.log
    assert not (gate.artifacts / "quantgate-smoke").exists()
    assert "smoke load (vLLM with the weights): not verified. No result arrived." in done.log
    assert "exit with `FAILURE`: 3" in done.log


def test_in_an_image(gate: Gate, tmp_path: Path) -> None:
    """The smoke load runs in an image without git: checkout, environment, weights and report.

    vLLM's own is too large for a test, so the interpreter that has vLLM is mounted into another.
    With QUANTGATE_E2E_INSTALL the dry load's job installs vLLM first, and says that both load.
    """
    python = Path(gate.python)
    folders = {python.absolute().parents[1], python.resolve().parents[1], gate.artifacts}
    shared = [*folders, *Path("/usr/lib").glob("*/libnuma.so.1")]  # vLLM's CPU build needs it
    mounts = " ".join(f"-v {place}:{place}" for place in shared)
    install = "--gpu sm90" if os.environ.get("QUANTGATE_E2E_INSTALL") else ""
    done = gate(
        image="python:3.13-slim",
        image_options=f"{mounts} -v {tmp_path / 'temporary'}:/tmp",
        dry_load=install,
    )
    assert done.code == 1, done.log
    assert gate.verdicts("smoke") == {"models/sound": "pass", "models/nan": "fail"}, done.log
    if install:
        assert set(gate.verdicts("dry-load").values()) == {"pass"}, done.log


def test_strangers_do_not_reach_the_runner(gate: Gate) -> None:
    """Without an environment for them, forks get no smoke load, and the gate stays closed."""
    done = gate(source="them/models")
    assert done.code == 1, done.log
    assert not (gate.artifacts / "quantgate-smoke").exists()
    assert "smoke load (vLLM with the weights): not verified. No result arrived." in done.log
    assert "smoke runner" not in done.printed
