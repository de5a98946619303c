"""A pull request from its first red run to the green one, with a GitHub that keeps the comment."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quantgate.report.as_json import to_json_text
from quantgate.runner import check_models
from tests.e2e.conftest import ROOT, run
from tests.support.events import PULL_REQUEST, WORKFLOW_RUN
from tests.support.github_server import GitHubServer, PullRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = ROOT / "examples/workflow.yml"
MANY = ROOT / "examples/many-models.yml"
SECOND = Path(__file__).parent / "workflows/comment.yml"


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    """A GitHub with pull request 3, which changes one of two models."""
    with GitHubServer() as server:
        server.pulls[3] = PullRequest(files={"models/new/config.json": ("added", "")})
        yield server
    assert server.violations == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The checkout of the pull request: an old broken model, and a new one."""
    repository = tmp_path / "repository"
    for name in ("old", "new"):
        shutil.copytree(ROOT / "examples/broken", repository / "models" / name)
    for command in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "Models"),
    ):
        assert run("git", *command, cwd=repository).returncode == 0
    return repository


def repair(folder: Path) -> None:
    """What the next commit of the pull request does."""
    shutil.rmtree(folder / "models/new")
    shutil.copytree(ROOT / "examples/good", folder / "models/new")


def test_a_comment_is_written_and_turns_green(workflow, github: GitHubServer, folder: Path):
    """Red: the job fails and says why. Repaired: the job passes and the same comment is green."""
    lines = (folder / "models/new/config.json").read_text().split("\n")[:-1]
    patch = "\n".join([f"@@ -0,0 +1,{len(lines)} @@", *(f"+{line}" for line in lines)])
    github.pulls[3].patches = {"models/new/config.json": patch}
    red = workflow(EXAMPLE, "quantgate", payload=PULL_REQUEST, folder=folder, api=github.url)
    assert red.code == 1, red.log
    assert "exit with `FAILURE`: 1" in red.log
    assert "FAIL models/new" in red.log
    assert "models/old" not in red.log
    (comment,) = github.comments[3]
    assert "### ❌" in comment["body"]
    (review,) = github.reviews
    assert {c["path"] for c in review["comments"]} == {"models/new/config.json"}
    assert all("```suggestion" in c["body"] for c in review["comments"])

    repair(folder)
    green = workflow(EXAMPLE, "quantgate", payload=PULL_REQUEST, folder=folder, api=github.url)
    assert green.code == 0, green.log
    assert github.comments[3] == [comment]
    assert "### ✅" in comment["body"]
    assert github.tokens == {"token 0123456789abcdef"}
    assert "0123456789abcdef" not in red.log + green.log


def test_a_fork_gets_the_same_verdict_and_its_comment_later(
    workflow, github: GitHubServer, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """The token may not write: the job is right all the same, and the second workflow comments."""
    github.may_write = False
    github.pulls[3].head_branch = "stranger:topic"
    red = workflow(EXAMPLE, "quantgate", payload=PULL_REQUEST, folder=folder, api=github.url)
    assert red.code == 1, red.log
    assert "exit with `FAILURE`: 1" in red.log
    assert "Resource not accessible by integration" in red.log
    assert 3 not in github.comments

    github.may_write = True
    monkeypatch.chdir(folder)
    report = to_json_text(check_models(["models/new"]))
    shutil.rmtree(folder / "models")
    (folder / "quantgate-report").mkdir()
    (folder / "quantgate-report/report.json").write_text(report)
    second = workflow(
        SECOND, "comment", event="workflow_run", payload=WORKFLOW_RUN, folder=folder, api=github.url
    )
    assert second.code == 0, second.log
    (comment,) = github.comments[3]
    assert "### ❌" in comment["body"]


def test_a_schedule_checks_every_model(workflow, github: GitHubServer, folder: Path):
    """It asks GitHub nothing and comments nowhere."""
    repair(folder)
    done = workflow(
        EXAMPLE,
        "quantgate",
        event="schedule",
        payload={"schedule": "17 3 * * 1"},
        folder=folder,
        api=github.url,
    )
    assert done.code == 1, done.log
    assert "FAIL models/old" in done.log
    assert "PASS models/new" in done.log
    assert github.calls == []


def test_many_models_are_spread_and_put_together(workflow, github: GitHubServer, folder: Path):
    """Plan, a job each, and a last one that decides and comments; a forged report is not taken."""
    shutil.copytree(ROOT / "examples/good", folder / "models/third")
    github.pulls[3].files["models/third/config.json"] = ("added", "")
    forged = folder / "quantgate-report/report.json"
    forged.parent.mkdir()
    forged.write_text(to_json_text(check_models([str(ROOT / "examples/good")])))
    # In act, jobs share the temporary folder, and the two of a matrix would run side by side.
    text = MANY.read_text()
    assert "fail-fast: false" in text
    file = folder.parent / "many-models.yml"
    file.write_text(text.replace("fail-fast: false", "max-parallel: 1"))
    done = workflow(file, payload=PULL_REQUEST, folder=folder, api=github.url)
    assert done.code == 1, done.printed
    last = done.of("quantgate").log
    assert "FAIL models/new" in last
    assert "PASS models/third" in last
    assert "exit with `FAILURE`: 1" in last
    (comment,) = github.comments[3]
    assert "1 of 2 models" in comment["body"]
