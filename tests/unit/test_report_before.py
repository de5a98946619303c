"""The report of the base branch, as far as runs there have left one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from quantgate.github import before
from quantgate.github.api import Api
from quantgate.github.before import report_before
from quantgate.github.event import Event
from quantgate.report.as_json import to_json_text
from quantgate.report.model import Report
from tests.support import report_samples
from tests.support.github_server import REPOSITORY, Fault, GitHubServer, PullRequest
from tests.unit.conftest import Action

NOW = report_samples.several_findings()


def renamed(*sources: str, revision: str = "") -> Report:
    """A report on models of these names."""
    model = replace(NOW.models[0], revision=revision or None)
    return replace(NOW, models=tuple(replace(model, source=s) for s in sources))


@pytest.fixture
def api(github: GitHubServer) -> Api:
    """The repository on the server."""
    return Api(Event(repository=REPOSITORY, api=github.url), "token")


def test_each_model_comes_from_the_newest_run_that_knows_it(api: Api, github: GitHubServer):
    """A run that only looked at what it touched knows a part of them."""
    github.add_artifact(to_json_text(renamed("a", "b", "c", revision="older")))
    github.add_artifact(to_json_text(renamed("b", "x", revision="newer")))
    found = report_before(api, "main", renamed("a", "b", "new"))
    assert found
    assert {m.source: m.revision for m in found.models} == {"b": "newer", "a": "older"}


def test_only_runs_of_the_branch_itself_count(api: Api, github: GitHubServer):
    """A fork may have a branch of that name; other branches and expired artifacts say nothing."""
    text = to_json_text(renamed("a"))
    github.add_artifact(text, repository=2)
    github.add_artifact(text, branch="topic")
    github.add_artifact(text, expired=True)
    assert report_before(api, "main", renamed("a")) is None
    assert not any(path.endswith("/zip") for _, path in github.calls)


@pytest.mark.parametrize("text", ["# all is well", "", '{"schema_version": 1}'])
def test_what_is_no_report_is_passed_over(api: Api, github: GitHubServer, text: str):
    """An older one may be one."""
    github.add_artifact(to_json_text(renamed("a")))
    github.add_artifact(text)
    github.archives[github.add_artifact("")] = b"no archive"
    assert report_before(api, "main", renamed("a"))


def test_a_large_artifact_is_not_read(
    api: Api, github: GitHubServer, monkeypatch: pytest.MonkeyPatch
):
    """The download ends at the limit."""
    monkeypatch.setattr(before, "MAX_BYTES", 100)
    github.add_artifact(to_json_text(renamed("a")))
    assert report_before(api, "main", renamed("a")) is None


def test_a_token_that_may_not_read_runs_costs_the_comparison_only(api: Api, github: GitHubServer):
    """Nothing is raised."""
    github.faults.append(Fault("GET", "/actions/artifacts", 403, "Resource not accessible"))
    assert report_before(api, "main", renamed("a")) is None


def test_the_comment_tells_what_the_change_brought(action: Action, github: GitHubServer):
    """From what a run on the base branch left, without any input."""
    action.put("a", broken=True)
    action("schedule")
    old = action.report
    (known,) = old["models"][0]["findings"]
    other = {**known, "rule": "QG411", "name": "surplus-tensor", "docs": "", "pattern": "x"}
    old["models"][0]["findings"] = [other]
    github.add_artifact(json.dumps(old))
    github.pulls[3] = PullRequest(files={"a/config.json": ("modified", "")})
    assert action.pull_request() == 1
    (comment,) = github.comments[3]
    assert "1 new finding, 1 fixed" in comment["body"]


def test_without_models_nothing_is_asked(api: Api, github: GitHubServer):
    """There is nothing to compare."""
    assert report_before(api, "main", replace(NOW, models=())) is None
    assert report_before(api, "", NOW) is None
    assert github.calls == []
