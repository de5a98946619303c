"""Suggestions on the lines of a pull request: applied as GitHub applies them, they give the fix."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgate.github.suggest import suggestions
from tests.support.github_server import Fault, GitHubServer, PullRequest
from tests.unit.conftest import Action

LINES = st.lists(
    st.sampled_from(["{", "}", '"a": 1,', '"b": 2,', "```", ""]), min_size=1, max_size=12
)


def whole(lines: list[str]) -> str:
    """The patch of a file that is new."""
    return "\n".join([f"@@ -0,0 +1,{len(lines)} @@", *(f"+{line}" for line in lines)])


def applied(lines: list[str], comments: list[dict]) -> list[str]:
    """The file after every suggestion was accepted."""
    lines = list(lines)
    for comment in sorted(comments, key=lambda c: -c["line"]):
        text = re.fullmatch(r".*?(`{3,})suggestion\n(.*?)\n?\1", comment["body"], flags=re.DOTALL)
        assert text
        inner = comment["body"].split("suggestion\n", 1)[1]
        new = inner.split("\n")[:-1]
        lines[comment.get("start_line", comment["line"]) - 1 : comment["line"]] = new
    return lines


@given(LINES, LINES)
def test_accepted_together_they_are_the_edit(before: list[str], after: list[str]):
    """Whatever is inserted, removed or replaced, where the whole file is in the diff."""
    found = suggestions("config.json", whole(before), before, after)
    assert applied(before, [s.as_comment() for s in found]) == after


def test_only_lines_of_the_diff_are_suggested_on():
    """GitHub refuses a whole review for one comment beside the diff."""
    before = [f'"{n}": {n},' for n in range(1, 41)]
    after = [line.replace(": 5,", ": 50,").replace(": 30,", ": 300,") for line in before]
    patch = "\n".join(
        ["@@ -3,2 +3,3 @@ {", f" {before[2]}", "-old", f"+{before[3]}", f"+{before[4]}"]
    )
    (only,) = suggestions("config.json", patch, before, after)
    assert (only.first, only.last) == (5, 5)
    assert '"5": 50,' in only.body


def test_a_diff_of_another_text_gets_none():
    """The base branch changed the file as well: the numbers of the lines are not these."""
    assert suggestions("config.json", whole(["x", "b"]), ["a", "b"], ["a", "c"]) == []


def test_a_line_that_acts_on_its_surroundings_is_left_out():
    """It could look like something else than what would be committed."""
    before = ["a", "b\u202e"]
    assert suggestions("config.json", whole(before), before, ["a", "c\u202e"]) == []
    assert suggestions("config.json", whole(before), before, ["x", "b\u202e"]) != []


@pytest.fixture
def shown(action: Action, github: GitHubServer) -> list[str]:
    """Pull request 3 adds a model with a wrong number of bits; the lines of its config.json."""
    action.put("a", broken=True)
    config = json.loads((action.checkout / "a/config.json").read_text())
    action.write("a/config.json", json.dumps(config, indent=2) + "\n")
    lines = (action.checkout / "a/config.json").read_text().split("\n")[:-1]
    github.pulls[3] = PullRequest(
        files={"a/config.json": ("added", "")}, patches={"a/config.json": whole(lines)}
    )
    return lines


def test_the_fix_can_be_clicked(action: Action, github: GitHubServer, shown: list[str]):
    """One review, once; accepted, the model passes."""
    assert action.pull_request() == 1
    assert action.pull_request() == 1
    (review,) = github.reviews
    assert review["event"] == "COMMENT"
    fixed = applied(shown, review["comments"])
    assert fixed != shown
    action.write("a/config.json", "\n".join(fixed) + "\n")
    assert action.pull_request() == 0
    assert len(github.reviews) == 1


def test_without_a_comment_there_is_no_suggestion(
    action: Action, github: GitHubServer, shown: list[str]
):
    """`never` means it, and where the comment is refused the review would be."""
    action.pull_request(comment="never")
    github.may_write = False
    action.pull_request()
    assert [path for _, path in github.writes()] == ["/repos/acme/models/issues/3/comments"]


def test_a_refused_review_is_a_warning(action: Action, github: GitHubServer, shown: list[str]):
    """The exit code and the comment are what they were."""
    github.faults.append(Fault("POST", "/reviews", 422, "Line must be part of the diff"))
    assert action.pull_request() == 1
    assert action.outputs["comment"] == "created"
    assert "::warning title=quantgate::no change was suggested: " in action.log
