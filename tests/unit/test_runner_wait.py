"""Waiting for a runner that is to take a job of the same run."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from quantgate.github import runner_wait
from quantgate.github.event import Event
from tests.support.github_server import Fault, PullRequest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.github_server import GitHubServer
    from tests.unit.conftest import Action

MOMENT = 0.2  # seconds
JOBS = "/repos/acme/models/actions/runs/77/jobs"


@pytest.fixture
def waiting(
    action: Action, monkeypatch: pytest.MonkeyPatch, github: GitHubServer, tmp_path: Path
) -> Action:
    """The action in run 77 on the runner `us`, with short minutes, and a report."""
    monkeypatch.setenv("GITHUB_RUN_ID", "77")
    monkeypatch.setenv("RUNNER_NAME", "us")
    monkeypatch.setattr(runner_wait, "INTERVAL", 0.01)
    monkeypatch.setattr(runner_wait, "MINUTE", 30.0)
    github.set_file(".github/quantgate.yml", "", "b" * 40)
    action.put("models/good")
    assert action("schedule") == 0
    report = tmp_path / "run0/quantgate/report.json"
    shutil.copy(report, action.checkout / "report.json")
    return action


def wait(action: Action, **inputs: str) -> int:
    """Wait for one minute for the smoke load, then join the reports."""
    return action.pull_request(
        reports="report.json",
        models="models/good",
        expect_tiers="headers smoke",
        await_job="smoke load",
        await_minutes="1",
        **inputs,
    )


def asked(github: GitHubServer) -> int:
    """How often the jobs were asked for."""
    return sum(path == JOBS for _, path in github.calls)


@pytest.mark.parametrize("status", ["in_progress", "completed", "waiting"])
def test_a_job_that_was_taken(waiting: Action, github: GitHubServer, status: str) -> None:
    """With the first sight of it all is done: there is no report, and no comment.

    A job that was skipped is completed, and one that waits for an approval waits for people.
    """
    github.add_jobs(gate__headers="completed", gate__smoke_load=status)
    assert wait(waiting) == 0
    assert asked(github) == 1
    assert github.writes() == []
    assert not list(waiting.folder.glob("run1/quantgate/*"))


def test_a_job_that_is_taken_in_the_end(waiting: Action, github: GitHubServer) -> None:
    """A job may not be listed at first, and then be queued in several ways."""
    github.add_jobs(gate__headers="completed")
    for status in ("requested", "pending", "queued", "in_progress"):
        github.add_jobs(gate__smoke_load=status)
    assert wait(waiting) == 0
    assert asked(github) == 5


def test_a_runner_that_never_comes(
    waiting: Action, github: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models are unverified, and the comment says what did not come."""
    monkeypatch.setattr(runner_wait, "MINUTE", MOMENT)
    github.pulls[3] = PullRequest()
    github.add_jobs(gate__smoke_load="queued")
    assert wait(waiting) == 3
    (comment,) = github.comments[3]
    assert "No runner has taken the job `smoke load` within 1 minute." in comment["body"]
    assert "smoke load (vLLM with the weights): not verified. No result arrived." in comment["body"]
    assert asked(github) > 2


def test_jobs_of_the_same_name(
    waiting: Action, github: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two calls of the workflow, the one that this job belongs to counts."""
    github.add_jobs(
        one__smoke_load="queued",
        one__smoke_runner="in_progress:them",
        two__smoke_load="in_progress",
        two__smoke_runner="in_progress:us",
    )
    assert wait(waiting) == 0
    github.jobs.clear()
    monkeypatch.setattr(runner_wait, "MINUTE", MOMENT)
    github.add_jobs(
        one__smoke_load="queued",
        one__smoke_runner="in_progress:us",
        two__smoke_load="in_progress",
        two__smoke_runner="in_progress:them",
    )
    assert wait(waiting) == 3


def test_jobs_of_the_same_name_from_an_unknown_runner(
    waiting: Action, github: GitHubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody knows which of them is meant, all have to be taken."""
    monkeypatch.setattr(runner_wait, "MINUTE", MOMENT)
    github.add_jobs(one__smoke_load="queued", two__smoke_load="in_progress")
    assert wait(waiting) == 3


def test_a_token_that_may_not_ask(waiting: Action, github: GitHubServer) -> None:
    """It is said, and the job that joins the reports has the last word."""
    github.faults.append(Fault("GET", JOBS, 403, "Resource not accessible by integration"))
    github.add_jobs(gate__smoke_load="queued")
    assert wait(waiting) == 0
    assert "no runner is waited for: Asked for the jobs of this run, GitHub answered 403" in (
        waiting.log
    )
    assert asked(github) == 1


def test_a_github_that_fails_once(waiting: Action, github: GitHubServer) -> None:
    """It is asked again."""
    github.faults.append(Fault("GET", JOBS, 422))
    github.add_jobs(gate__smoke_load="in_progress")
    assert wait(waiting) == 0
    assert asked(github) == 2


def test_without_reports_there_is_no_waiting(waiting: Action, github: GitHubServer) -> None:
    """A gate that checks checks at once."""
    assert waiting("schedule", await_job="smoke load") == 0
    assert asked(github) == 0
    assert waiting.checked == ["models/good"]


@pytest.mark.parametrize("text", ["", "x", "-1", "1e3", "²", "9" * 30])
def test_runs_without_a_number(text: str) -> None:
    """What is no number is none."""
    assert Event.from_environment({"GITHUB_RUN_ID": text}).run == 0


@pytest.mark.parametrize("text", ["0", "301", "-5", "ten", "1.5"])
def test_minutes_that_are_none(waiting: Action, text: str) -> None:
    """A bad number of minutes is refused before anything is asked."""
    assert waiting("schedule", await_minutes=text) == 2
    assert "is not a number of minutes from 1 to 300" in waiting.log
