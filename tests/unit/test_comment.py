"""The comment on a pull request: one, found again, kept up to date, and never in the way."""

from __future__ import annotations

import re

import pytest

from quantgate.report.markdown import COMMENT_BUDGET, MARKER
from tests.support.github_server import BOT, COMMITS, Fault, GitHubServer, PullRequest
from tests.unit.conftest import Action, bodies

pytestmark = pytest.mark.usefixtures("pull")


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


def test_a_run_that_was_overtaken_says_nothing(
    action: Action, github: GitHubServer, pull: PullRequest
):
    """The last job of a run that the next push has cancelled leaves the newer comment alone."""
    action.put("a")
    assert action.pull_request(comment="always") == 0
    before = bodies(github)
    pull.head = COMMITS["older"]
    action.put("a", broken=True)
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "stale"
    assert bodies(github) == before
    assert github.reviews == []


def test_a_head_that_is_not_told_is_taken_as_it_was(
    action: Action, github: GitHubServer, pull: PullRequest
):
    """Whether the run was overtaken is a question, and no reason to say nothing."""
    action.put("a", broken=True)
    github.faults.append(Fault("GET", "/pulls/3$", 422))
    assert action.pull_request(all="true") == 1
    assert action.outputs["comment"] == "created"


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


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for."""
    monkeypatch.setattr("quantgate.github.comment.PAUSE", 0)


def test_an_answer_that_got_lost_gives_no_second_comment(
    action: Action, github: GitHubServer, hurried: None
):
    """GitHub wrote it and said 502: it is found, and not written again."""
    action.put("a", broken=True)
    github.faults.append(Fault("POST", "/issues/3/comments", 502, "Bad gateway", after=True))
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "unchanged"
    assert len(bodies(github)) == 1
    assert len(github.writes()) == 1


def test_a_server_error_is_tried_again(action: Action, github: GitHubServer, hurried: None):
    """Nothing was written, so that it is written now; a change is made again as well."""
    action.put("a", broken=True)
    github.faults.append(Fault("POST", "/issues/3/comments", 500, "Oops"))
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "created"
    action.put("a")
    github.faults.append(Fault("PATCH", "/issues/comments/", 500, "Oops"))
    assert action.pull_request() == 0
    assert action.outputs["comment"] == "updated"
    assert len(bodies(github)) == 1


def test_a_server_that_keeps_failing_costs_the_comment_only(
    action: Action, github: GitHubServer, hurried: None
):
    """The warning says what GitHub said."""
    action.put("a", broken=True)
    github.faults += [Fault("POST", "/issues/3/comments", 503, "Down") for _ in range(3)]
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "refused"
    assert "GitHub answered 503: Down" in action.log


def test_a_comment_that_is_removed_meanwhile_is_written_anew(
    action: Action, github: GitHubServer, hurried: None
):
    """Between the look and the change somebody deleted it."""
    action.put("a", broken=True)
    github.add_comment(3, BOT, f"{MARKER}\nold")
    github.gone_when_changed = True
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "created"
    (body,) = bodies(github)
    assert body.startswith(f"{MARKER}\n### ❌")


def test_a_locked_conversation_is_not_called_a_fork(action: Action, github: GitHubServer):
    """Another permission would not help."""
    action.put("a", broken=True)
    text = "Unable to create comment because issue is locked."
    github.faults.append(Fault("POST", "/issues/3/comments", 403, text))
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "refused"
    assert "issue is locked." in action.log
    assert "fork" not in action.log


def test_two_gates_keep_a_comment_each(action: Action, github: GitHubServer):
    """Each finds its own by the key, and turns it green alone."""
    action.put("a", broken=True)
    for key in ("", "gpu", "gpu-2"):
        action.pull_request(comment_key=key)
        assert action.outputs["comment"] == "created"
    assert [b.splitlines()[0] for b in bodies(github)] == [
        "<!-- quantgate:report -->",
        "<!-- quantgate:report gpu -->",
        "<!-- quantgate:report gpu-2 -->",
    ]
    action.put("a")
    action.pull_request(comment_key="gpu")
    assert ["✅" in b for b in bodies(github)] == [False, True, False]


@pytest.mark.parametrize("key", ["-->", "a--b", "a b", "ä", "x" * 61])
def test_a_key_is_a_word(action: Action, github: GitHubServer, key: str):
    """It stands in an HTML comment; with a bad one, no comment is touched."""
    github.add_comment(3, BOT, f"{MARKER}\nold")
    action.put("a")
    assert action.pull_request(comment_key=key) == 2
    assert bodies(github) == [f"{MARKER}\nold"]


@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        ({"fail_on": "maybe"}, 2, "is none of error"),
        ({"manifest": "none.yaml"}, 3, "there is no manifest"),
    ],
)
def test_a_gate_that_cannot_run_does_not_leave_its_comment_green(
    action: Action, github: GitHubServer, inputs: dict[str, str], code: int, said: str
):
    """What it says is of an older commit."""
    action.put("a")
    action.pull_request(comment="always")
    assert action.pull_request(**inputs) == code
    (body,) = bodies(github)
    assert body.startswith(f"{MARKER}\n### ❓ quantgate could not run")
    assert said in body
    assert action.outputs["verdict"] == "error"
    assert action.outputs["comment"] == "updated"
    assert action.log.startswith("::add-mask::secret-token\n")


def test_a_gate_that_cannot_run_writes_no_first_comment(action: Action, github: GitHubServer):
    """The job has failed with a message already; and `never` holds."""
    assert action.pull_request(fail_on="maybe") == 2
    assert bodies(github) == []
    github.add_comment(3, BOT, f"{MARKER}\nold")
    calls = len(github.calls)
    assert action.pull_request(fail_on="maybe", comment="never") == 2
    assert len(github.calls) == calls


def test_a_crash_is_told_in_the_comment(
    action: Action, github: GitHubServer, monkeypatch: pytest.MonkeyPatch
):
    """Without its text, which nobody has read before."""

    def crash(*_: object, **__: object) -> None:
        raise LookupError("secret")

    action.put("a")
    action.pull_request(comment="always")
    monkeypatch.setattr("entrypoint.check_models", crash)
    assert action.pull_request() == 4
    (body,) = bodies(github)
    assert "### ❓ quantgate could not run" in body
    assert "secret" not in body


def test_reasons_are_inert(action: Action, github: GitHubServer):
    """A pull request chooses the names that a refusal quotes."""
    github.add_comment(3, BOT, f"{MARKER}\nold")
    action.write("m.yaml", "['../@org/team <img src=x> [a](http://b)']")
    assert action.pull_request(manifest="m.yaml") == 3
    (body,) = bodies(github)
    assert "leads out of the checkout" in body
    outside = re.sub(r"`[^`]*`", "", body.removeprefix(MARKER))
    assert not set("@<[") & set(outside)


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
