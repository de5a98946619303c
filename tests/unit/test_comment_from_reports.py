"""Comments from the reports of earlier jobs: of a fork's first workflow, and of many jobs."""

from __future__ import annotations

import pytest

from quantgate.report.markdown import MARKER
from tests.support.events import WORKFLOW_RUN
from tests.support.github_server import BOT, COMMITS, GitHubServer, PullRequest
from tests.unit.conftest import Action, bodies

pytestmark = pytest.mark.usefixtures("pull")


@pytest.fixture
def reported(action: Action, github: GitHubServer, pull: PullRequest) -> Action:
    """A pull request from a fork was checked; its report lies where it was downloaded to."""
    pull.head_branch = "stranger:topic"
    github.may_write = False
    action.put("a", broken=True)
    action.pull_request()
    report = action.folder / "run0/quantgate/report.json"
    for path in (action.checkout / "a").iterdir():
        path.unlink()
    (action.checkout / "a").rmdir()
    action.write("quantgate/report.json", report.read_text())
    github.may_write = True
    return action


def test_the_second_workflow_writes_the_comment(reported: Action, github: GitHubServer):
    """From the JSON alone, without a checkout; it passes, as the first one decides."""
    assert reported("workflow_run", WORKFLOW_RUN, reports="quantgate/report.json") == 0
    assert reported.outputs["comment"] == "created"
    (body,) = bodies(github)
    assert body.startswith(f"{MARKER}\n### ❌")
    assert "QG401" in body
    assert "ended with `failure`" in body


def test_a_run_of_an_older_commit_says_nothing(
    reported: Action, github: GitHubServer, pull: PullRequest
):
    """The pull request has moved on, and the newer run speaks for it."""
    pull.head = COMMITS["older"]
    assert reported("workflow_run", WORKFLOW_RUN, reports="quantgate/report.json") == 0
    assert reported.outputs["comment"] == "stale"
    assert bodies(github) == []
    assert "::notice title=quantgate::no comment was written: no open pull" in reported.log


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# ✅ all is well", "is not JSON"),
        ('{"schema_version": 1, "tool": {}, "targets": [], "models": []}', "not a report"),
        ("", "is not JSON"),
    ],
)
def test_what_is_no_report_is_not_shown(
    reported: Action, github: GitHubServer, text: str, said: str
):
    """A stranger's workflow wrote the file: Markdown, or anything, may be in it."""
    reported.write("quantgate/report.json", text)
    assert reported("workflow_run", WORKFLOW_RUN, reports="quantgate/report.json") == 3
    assert said in reported.log
    assert bodies(github) == []


def test_a_first_workflow_without_a_report_does_not_leave_the_comment_green(
    reported: Action, github: GitHubServer
):
    """It had a bad input, or was made to stop."""
    github.add_comment(3, BOT, f"{MARKER}\n### ✅ old")
    assert reported("workflow_run", WORKFLOW_RUN, reports="nothing/report.json") == 3
    (body,) = bodies(github)
    assert "### ❓ quantgate could not run" in body


def test_a_config_that_was_downloaded_is_not_read(reported: Action, github: GitHubServer):
    """The files of the artifact are a stranger's, whatever they are called."""
    reported.write(".github/quantgate.yml", "comment: never")
    reported("workflow_run", WORKFLOW_RUN, reports="quantgate/report.json")
    assert reported.outputs["comment"] == "created"


@pytest.mark.parametrize("pattern", ["../report.json", "/etc/*.json", "nothing/*.json"])
def test_a_report_that_is_not_there_stops_the_gate(reported: Action, pattern: str):
    """The job before it left none, or somewhere else."""
    assert reported("workflow_run", WORKFLOW_RUN, reports=pattern) == 3


def test_one_last_job_puts_the_reports_together(action: Action, github: GitHubServer):
    """The comment, the summary and the exit code are those of all jobs."""
    for number, broken in enumerate([False, True], start=1):
        action.put(f"m{number}", broken=broken)
        action.pull_request(models=f"m{number}", all="true", comment="never")
        text = (action.folder / f"run{number - 1}/quantgate/report.json").read_text()
        action.write(f"reports/{number}/report.json", text)
    assert bodies(github) == []
    assert action.pull_request(reports="reports/1/report.json\nreports/2/report.json") == 1
    assert action.checked == ["m1", "m2"]
    (body,) = bodies(github)
    assert "m2" in body
    # So does a tier that a model has not been through, and the comment says which.
    both = "reports/*/report.json"
    assert action.pull_request(reports="reports/1/report.json", expect_tiers="headers smoke") == 3
    assert "Judged by the smoke load" in bodies(github)[0]
    assert action.pull_request(reports=both, expect_tiers="headers") == 1
    # A model that no report knows closes the gate, and so does a job that left none.
    assert action.pull_request(reports=both, models="m1\nm2", fail_on="never") == 0
    assert action.pull_request(reports=both, models="m1\nm3", fail_on="never") == 3
    assert action.report["models"][2]["summary"] == "No report on this model arrived."
    assert action.pull_request(reports="reports/1/report.json\nreports/3/report.json") == 3
