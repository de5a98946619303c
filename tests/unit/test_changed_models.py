"""Which models a run checks: for every event, from the files that a change touches."""

from __future__ import annotations

import pytest

from tests.support.github_server import COMMITS, Fault, GitHubServer, PullRequest
from tests.unit.conftest import Action


def test_only_models_with_changed_files_are_checked(action: Action, changed):
    """A file beneath the folder counts, the folder beside it with the same beginning does not."""
    for name in ("models/a", "models/ab", "models/c"):
        action.put(name)
    changed("README.md", "models/a/model.safetensors", "models/c/sub/notes.txt")
    assert action.pull_request() == 0
    assert action.checked == ["models/a", "models/c"]
    assert action.report["unchanged"] == 1
    assert action.outputs["models-checked"] == "2"


def test_a_moved_file_touches_both_folders(action: Action, github: GitHubServer):
    """What was moved out of a model is missing from it now."""
    for name in ("a", "b"):
        action.put(name)
    github.pulls[3] = PullRequest(files={"b/x.json": ("renamed", "a/x.json")})
    action.pull_request()
    assert action.checked == ["a", "b"]


def test_a_change_that_touches_no_model_passes(action: Action, changed):
    """A broken model that lies there already does not hold up a change of the README."""
    action.put("a", broken=True)
    changed("README.md")
    assert action.pull_request() == 0
    assert (action.outputs["verdict"], action.outputs["models-checked"]) == ("pass", "0")
    assert "no model changed (1 not touched)" in action.log


def test_more_than_300_changed_files_are_all_seen(action: Action, github: GitHubServer, changed):
    """The list is read to its last page."""
    action.put("z")
    changed(*(f"docs/{i}.md" for i in range(450)), "z/config.json")
    action.pull_request()
    assert action.checked == ["z"]
    assert sum(p.endswith("/files") for _, p in github.calls) == 5


def test_more_files_than_github_lists_mean_everything(action: Action, changed):
    """Nobody knows what the rest touches, and the report says so."""
    action.put("a")
    changed("README.md", changed_files=3001)
    action.pull_request()
    assert action.checked == ["a"]
    assert "more than 3,000 files" in action.notes


@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_unanswered_question_means_everything(
    action: Action, github: GitHubServer, changed, status: int, monkeypatch: pytest.MonkeyPatch
):
    """The gate does not open because GitHub did not say what changed."""
    monkeypatch.setattr("quantgate.github.retry.TRIES", 1)
    action.put("a", broken=True)
    changed("README.md")
    github.faults += [Fault("GET", "/pulls/3$", status, "no")] * (2 if status == 500 else 1)
    assert action.pull_request() == 1
    assert action.checked == ["a"]
    assert "Everything was checked, as the changed files are unknown." in action.notes


def test_all_is_everything(action: Action, github: GitHubServer, changed):
    """No question is asked then."""
    action.put("a")
    changed("README.md")
    action.pull_request(all="true")
    assert action.checked == ["a"]
    assert not any(path.endswith("/files") for _, path in github.calls)


@pytest.mark.parametrize("event", ["schedule", "workflow_dispatch"])
def test_without_a_change_everything_is_checked(action: Action, github: GitHubServer, event: str):
    """A schedule looks at the branch as it stands, and asks GitHub nothing."""
    action.put("a")
    action.put("b")
    assert action(event, {"schedule": "0 0 * * *"}) == 0
    assert action.checked == ["a", "b"]
    assert github.calls == []


@pytest.mark.parametrize("event", ["push", "merge_group"])
def test_two_commits_are_compared_by_their_trees(action: Action, github: GitHubServer, event: str):
    """Changed, new and removed files count; GitHub's comparison would end after 300 files."""
    for name in ("a", "b", "c", "d"):
        action.put(name)
    same = {f"docs/{i}": "1" * 40 for i in range(400)}
    github.trees = {
        COMMITS["base"]: {**same, "a/config.json": "1" * 40, "b/x": "1" * 40, "d/x": "1" * 40},
        COMMITS["head"]: {**same, "a/config.json": "2" * 40, "c/x": "1" * 40, "d/x": "1" * 40},
    }
    payload = {
        "push": {"before": COMMITS["base"], "after": COMMITS["head"]},
        "merge_group": {
            "merge_group": {"base_sha": COMMITS["base"], "head_sha": COMMITS["head"]},
        },
    }
    action(event, payload[event])
    assert action.checked == ["a", "b", "c"]
    assert github.writes() == []


def test_a_tree_too_large_to_list_means_everything(action: Action, github: GitHubServer):
    """GitHub says itself that it left files out."""
    action.put("a")
    github.trees = {COMMITS["base"]: {}, COMMITS["head"]: {}}
    github.truncated = True
    action("push", {"before": COMMITS["base"], "after": COMMITS["head"]})
    assert action.checked == ["a"]
    assert "more files than GitHub lists" in action.notes


def test_a_new_branch_is_checked_as_a_whole(action: Action, github: GitHubServer):
    """There is nothing to compare it with: GitHub writes zeros."""
    action.put("a")
    action("push", {"before": "0" * 40, "after": COMMITS["head"]})
    assert action.checked == ["a"]
    assert github.calls == []


def test_a_touched_base_model_is_a_change_of_every_model(action: Action, changed):
    """It is the witness of all of them."""
    for name in ("a", "b", "original"):
        action.put(name)
    changed("original/config.json")
    action.pull_request(base="original", models="a\nb")
    assert action.checked == ["a", "b"]


def test_a_model_behind_a_link_is_touched_where_it_lies(action: Action, changed):
    """Its files are those of the folder that the link leads to."""
    action.put("store/a")
    (action.checkout / "current").symlink_to("store/a")
    changed("store/a/config.json")
    action.pull_request(models="current")
    assert action.checked == ["current"]


def test_a_link_on_the_way_is_a_change(action: Action, changed):
    """Turned to another folder, it makes another model of the same name."""
    for name in ("store/1/a", "store/2/a"):
        action.put(name)
    (action.checkout / "current").symlink_to("next")
    (action.checkout / "next").symlink_to("store/2")
    for link in ("current", "next", "store/2/a/config.json"):
        changed(link)
        action.pull_request(models="current/a")
        assert action.checked == ["current/a"], link
    changed("store/1/a/config.json")
    action.pull_request(models="current/a")
    assert action.checked == []


def test_a_submodule_is_a_change_of_all_within(action: Action, changed):
    """GitHub lists it as one file."""
    action.put("vendor/models/a")
    changed("vendor")
    action.pull_request()
    assert action.checked == ["vendor/models/a"]


def test_the_target_of_a_weight_file_is_a_part_of_the_model(action: Action, changed):
    """As in a Hub cache, whose snapshots consist of links."""
    action.put("c/snapshots/1")
    weights = action.checkout / "c/snapshots/1/model.safetensors"
    (action.checkout / "c/blobs").mkdir()
    weights.rename(action.checkout / "c/blobs/x")
    weights.symlink_to("../../blobs/x")
    changed("c/blobs/x")
    assert action.pull_request() == 0
    assert action.checked == ["c/snapshots/1"]


@pytest.mark.parametrize(
    ("event", "said"),
    [("pull_request_target", "must not come near them"), ("workflow_run", "nothing is checked")],
)
def test_events_with_secrets_check_nothing(
    action: Action, github: GitHubServer, event: str, said: str
):
    """They are refused with an explanation, before any file is read."""
    action.put("a")
    payload = {"pull_request": {"number": 3, "base": {}, "head": {}}}
    assert action(event, payload) == 2
    assert said in action.log
    assert github.calls == []


def test_the_token_is_masked_and_told_to_github_only(action: Action, github, changed):
    """The first line of the log hides it, and no other line holds it."""
    action.put("a")
    changed("a/config.json")
    action.pull_request()
    first, rest = action.log.split("\n", 1)
    assert first == "::add-mask::secret-token"
    assert "secret-token" not in rest
    assert github.tokens == {"token secret-token"}


def test_an_event_that_is_no_event_stops_the_gate(action: Action):
    """A payload that cannot be read says nothing about the base branch."""
    action.put("a")
    assert action("pull_request", "{") == 2
    assert "the event of this run cannot be read" in action.log
