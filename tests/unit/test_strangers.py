"""Where the models of a change may be loaded: here, behind an approval, or nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.events import PULL_REQUEST
from tests.support.github_server import REPOSITORY, Fault, PullRequest

if TYPE_CHECKING:
    from tests.support.github_server import GitHubServer
    from tests.unit.conftest import Action


@pytest.fixture
def planned(action: Action, github: GitHubServer) -> Action:
    """The action before a pull request that changes a model."""
    github.pulls[3] = PullRequest(files={"models/new/config.json": ("added", "")})
    action.put("models/new")
    return action


def plan(action: Action, head: dict[str, Any] | None, **inputs: str) -> str:
    """What is told for a pull request from a repository, or from one that is gone."""
    pull = PULL_REQUEST["pull_request"]
    event = {"pull_request": {**pull, "head": {**pull["head"], "repo": head}}}
    assert action("pull_request", event, plan="1", **inputs) == 0
    assert action.outputs["models"] == "models/new"
    return action.outputs["may-run"]


@pytest.mark.parametrize("fork", [True, False])
def test_branches_of_the_repository(planned: Action, fork: bool) -> None:
    """They are the repository's own, also where that is itself a fork; names have no case."""
    assert plan(planned, {"full_name": REPOSITORY, "fork": fork}) == "here"
    assert plan(planned, {"full_name": REPOSITORY.upper(), "fork": fork}) == "here"


@pytest.mark.parametrize(
    "head", [{"full_name": "them/models", "fork": True}, {"full_name": "up/models"}, {}, None]
)
def test_strangers(planned: Action, github: GitHubServer, head: dict[str, Any] | None) -> None:
    """Forks, what this repository is a fork of, and repositories that are gone need reviewers."""
    github.add_environment("gpu/smoke", "somebody")
    assert plan(planned, head) == ""
    assert plan(planned, head, fork_environment="gpu/smoke") == "reviewed"


def test_environments_that_protect_nothing(planned: Action, github: GitHubServer) -> None:
    """GitHub makes up an environment that nobody has made; and a timer is no reviewer."""
    github.add_environment("timer")
    head = {"full_name": "them/models"}
    for name in ("timer", "tpyo"):
        assert plan(planned, head, fork_environment=name) == ""
        assert f"the environment '{name}' has no required reviewers" in planned.log


def test_a_token_that_may_not_ask(planned: Action, github: GitHubServer) -> None:
    """Who cannot be asked has not agreed."""
    github.add_environment("smoke", "somebody")
    github.faults.append(Fault("GET", "/environments/", 403, "Resource not accessible"))
    assert plan(planned, {"full_name": "them/models"}, fork_environment="smoke") == ""
    assert "GitHub answered 403" in planned.log


def test_other_events(planned: Action) -> None:
    """What is merged, or has been let into a merge queue, is the repository's own."""
    assert planned("schedule", plan="1") == 0
    assert planned.outputs["may-run"] == "here"
