"""The comment on a pull request: one, found again, kept up to date, and never in the way."""

from __future__ import annotations

import pytest

from quantgate.report.markdown import COMMENT_BUDGET, MARKER
from tests.support.github_server import BOT, COMMITS, Fault, GitHubServer, PullRequest
from tests.unit.conftest import Action

RUN = {
    "workflow_run": {
        "event": "pull_request",
        "conclusion": "failure",
        "head_sha": COMMITS["head"],
        "head_branch": "topic",
        "head_repository": {"owner": {"login": "stranger"}},
    }
}


@pytest.fixture(autouse=True)
def pull(github: GitHubServer) -> PullRequest:
    """Pull request 3 changes the model `a`."""
    github.pulls[3] = PullRequest(files={"a/config.json": ("modified", "")})
    return github.pulls[3]


def bodies(github: GitHubServer) -> list[str]:
    """The texts of all comments, oldest first."""
    return [c["body"] for c in github.comments.get(3, [])]


def test_a_failure_is_told_once_and_turns_green(action: Action, github: GitHubServer):
    """Broken: one comment. Again: not even rewritten. Fixed: the same comment, green."""
    action.put("a", broken=True)
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "created"
    (red,) = bodies(github)
    assert red.startswith(f"{MARKER}\n### ❌")

    assert action.pull_request() == 1
    assert action.outputs["comment"] == "unchanged"
    assert len(github.writes()) == 1

    action.put("a")
    assert action.pull_request() == 0
    assert action.outputs["comment"] == "updated"
    (green,) = bodies(github)
    assert green.startswith(f"{MARKER}\n### ✅")
    assert action.outputs["comment-url"].endswith(f"#issuecomment-{github.comments[3][0]['id']}")


def test_a_red_comment_turns_green_when_the_model_is_no_longer_touched(
    action: Action, github: GitHubServer, pull: PullRequest
):
    """Whoever takes the change back is not left with a red comment."""
    action.put("a", broken=True)
    action.pull_request()
    pull.files = {"README.md": ("modified", "")}
    assert action.pull_request() == 0
    (green,) = bodies(github)
    assert green.startswith(f"{MARKER}\n### ✅")


@pytest.mark.parametrize(
    ("when", "broken", "done"),
    [
        ("on-failure", False, "none"),
        ("on-failure", True, "created"),
        ("always", False, "created"),
        ("never", True, None),
    ],
)
def test_when_there_is_a_comment(
    action: Action, github: GitHubServer, when: str, broken: bool, done: str | None
):
    """By default nobody is told that nothing is wrong."""
    action.put("a", broken=broken)
    assert action.pull_request(comment=when) == int(broken)
    assert action.outputs.get("comment") == done
    assert len(bodies(github)) == (done == "created")
    if done is None:
        assert not any("/issues/" in path for _, path in github.calls)


def test_the_comment_is_found_by_author_and_marker_on_any_page(
    action: Action, github: GitHubServer
):
    """Not a forged one, not one that quotes the marker, and not only among the first hundred."""
    github.add_comment(3, "stranger", f"{MARKER}\n### ✅ all is well")
    github.add_comment(3, BOT, f"Somebody wrote {MARKER}")
    for number in range(220):
        github.add_comment(3, "somebody", f"chat {number}")
    ours = github.add_comment(3, BOT, f"{MARKER}\n### ❌ old")
    action.put("a")
    assert action.pull_request() == 0
    assert action.outputs["comment"] == "updated"
    assert ours["body"].startswith(f"{MARKER}\n### ✅")
    assert bodies(github)[0].endswith("all is well")
    assert len(bodies(github)) == 223


def test_line_ends_that_github_changed_are_no_change(action: Action, github: GitHubServer):
    """The comment is compared as it is shown."""
    action.put("a", broken=True)
    action.pull_request()
    github.comments[3][0]["body"] = bodies(github)[0].strip().replace("\n", "\r\n")
    action.pull_request()
    assert action.outputs["comment"] == "unchanged"


def test_a_token_that_may_not_write_changes_nothing_else(action: Action, github: GitHubServer):
    """Pull request from a fork: annotations, summary, files, outputs and the same exit code."""
    github.may_write = False
    action.put("a", broken=True)
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "refused"
    assert action.outputs["verdict"] == "fail"
    assert action.report["models"][0]["verdict"] == "fail"
    assert "\n::error file=" in action.log
    assert "::warning title=quantgate::no comment was written: the token of this run" in action.log
    assert "Resource not accessible by integration" in action.log
    action.put("a")
    assert action.pull_request() == 0


def test_a_secondary_limit_is_waited_for(action: Action, github: GitHubServer):
    """GitHub says when to come back, and the comment is written then."""
    action.put("a", broken=True)
    text = "You have exceeded a secondary rate limit."
    github.faults += [
        Fault("GET", "/issues/3/comments", 403, text, {"Retry-After": "0"}),
        Fault("POST", "/issues/3/comments", 403, text, {"Retry-After": "0"}),
    ]
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "created"
    assert len(bodies(github)) == 1


def test_a_limit_that_resets_much_later_is_not_waited_for(action: Action, github: GitHubServer):
    """A job must not sleep for an hour, least of all to write a comment."""
    action.put("a", broken=True)
    github.faults += [
        Fault(
            "GET",
            "/issues/3/comments",
            403,
            "API rate limit exceeded for installation.",
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4102444800"},
        )
    ]
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "refused"
    assert "rate limit exceeded" in action.log


def test_an_enterprise_server_is_asked_below_its_path(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """GITHUB_API_URL leads there; GraphQL lies beside REST."""
    (tmp_path / "checkout").mkdir()
    with GitHubServer(prefix="/api/v3") as server:
        server.pulls[3] = PullRequest(files={"a/config.json": ("modified", "")})
        server.add_comment(3, BOT, f"{MARKER}\nold")
        action = Action(tmp_path, monkeypatch, capsys, server)
        action.put("a", broken=True)
        assert action.pull_request() == 1
        assert action.outputs["comment"] == "updated"
        assert ("POST", "/api/graphql") in server.calls
        assert server.violations == []


def test_a_long_report_fits_into_a_comment(action: Action, github: GitHubServer, pull: PullRequest):
    """Sixty broken models: the comment stays below GitHub's limit and says where the rest is."""
    for number in range(60):
        action.put(f"m{number}", broken=True)
    pull.files = {f"m{number}/config.json": ("modified", "") for number in range(60)}
    assert action.pull_request() == 1
    (body,) = bodies(github)
    assert 10_000 < len(body.encode()) <= COMMENT_BUDGET
    assert "the job summary" in body


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
    assert reported("workflow_run", RUN, reports="quantgate/report.json") == 0
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
    assert reported("workflow_run", RUN, reports="quantgate/report.json") == 0
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
    assert reported("workflow_run", RUN, reports="quantgate/report.json") == 3
    assert said in reported.log
    assert bodies(github) == []


def test_a_config_that_was_downloaded_is_not_read(reported: Action, github: GitHubServer):
    """The files of the artifact are a stranger's, whatever they are called."""
    reported.write(".github/quantgate.yml", "comment: never")
    reported("workflow_run", RUN, reports="quantgate/report.json")
    assert reported.outputs["comment"] == "created"


@pytest.mark.parametrize("pattern", ["../report.json", "/etc/*.json", "nothing/*.json"])
def test_a_report_that_is_not_there_stops_the_gate(reported: Action, pattern: str):
    """The job before it left none, or somewhere else."""
    assert reported("workflow_run", RUN, reports=pattern) == 3


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
    # A job that left no report closes the gate.
    assert action.pull_request(reports="reports/1/report.json\nreports/3/report.json") == 3
