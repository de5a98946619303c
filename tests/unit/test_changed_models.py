"""Which models a run checks: for every event, from files, lists and the config file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from quantgate.config import parse_config
from quantgate.settings import Settings
from tests.support.github_server import COMMITS, Fault, GitHubServer, PullRequest
from tests.unit.conftest import Action

CONFIG = ".github/quantgate.yml"


@pytest.fixture
def changed(github: GitHubServer):
    """Say which files pull request 3 changes."""

    def set_files(*paths: str, **values: int) -> None:
        github.pulls[3] = PullRequest(files=dict.fromkeys(paths, ("modified", "")), **values)

    return set_files


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
    assert not any("/pulls/" in path for _, path in github.calls)


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


def test_patterns_name_model_folders(action: Action, changed):
    """A pattern gives folders with a model and archives; links and other files are no models."""
    for name in ("models/a", "models/b", "other/c"):
        action.put(name)
    (action.checkout / "models/link").symlink_to("b")
    action.write("models/README.md", "x")
    action.pull_request(models="models/*", all="true")
    assert action.checked == ["models/a", "models/b"]


@pytest.mark.parametrize("pattern", ["nothing/*", "../*", "/etc/*"])
def test_a_pattern_without_a_model_stops_the_gate(action: Action, pattern: str):
    """A typo must not look like a clean bill."""
    action.put("models/a")
    assert action("schedule", models=pattern) == 3
    assert repr(pattern) in action.log


@pytest.mark.usefixtures("empty_hub")
def test_a_changed_line_of_the_manifest_is_a_changed_model(
    action: Action, github: GitHubServer, changed
):
    """New lines and touched folders are checked; unchanged lines are not, whatever they name."""
    for name in ("a", "b", "c"):
        action.put(name)
    github.set_file("models.yaml", "[a, b, org/old@1]", COMMITS["base"])
    action.write("models.yaml", "- a\n- b\n- c\n- org/old@1\n- {repo: org/new, revision: '2'}\n")
    changed("models.yaml", "b/config.json")
    assert action.pull_request(manifest="models.yaml") == 3
    assert action.checked == ["b", "c", "org/new@2"]


@pytest.mark.usefixtures("empty_hub")
def test_a_model_that_two_lists_name_is_new_if_either_says_so(
    action: Action, github: GitHubServer, changed
):
    """A Hub id of the workflow is always checked, also where the manifest has it for long."""
    action.write("models.yaml", "[org/old@1]")
    github.set_file("models.yaml", "[org/old@1]", COMMITS["base"])
    changed("README.md")
    action.pull_request(manifest="models.yaml", models="org/old@1")
    assert action.checked == ["org/old@1"]


@pytest.mark.parametrize("place", ["/etc", "../other", "models/../../other"])
def test_a_list_of_a_pull_request_leads_nowhere_else(
    action: Action, github: GitHubServer, changed, place: str
):
    """Neither a manifest nor a proposed config may name folders beside the checkout."""
    action.put("a")
    changed("a/config.json")
    action.write("m.yaml", f"[{place}]")
    assert action.pull_request(manifest="m.yaml") == 3
    assert "leads out of the checkout" in action.log
    action.write(CONFIG, f"models: [{place}]")
    assert action.pull_request() == 3
    assert "leads out of the checkout" in action.log


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("m.yaml", "", "lists no model"),
        ("m.yaml", "[1]", "an entry that names no model: 1"),
        ("m.yaml", "- model: a\n  revision: 1.0", "a revision that is no text"),
        ("m.json", "{", "is not JSON"),
        ("m.yaml#a.*.b", "a: {x: {c: 1}}", "lists no model at a.*.b"),
        ("absent.yaml", "", "there is no manifest 'absent.yaml'"),
    ],
)
def test_a_manifest_that_lists_nothing_stops_the_gate(
    action: Action, name: str, text: str, said: str
):
    """It says what is wrong with it."""
    if not name.startswith("absent"):
        action.write(name.partition("#")[0], text)
    assert action("schedule", manifest=name) == 3
    assert said in action.log


def test_a_manifest_may_be_part_of_a_larger_file(action: Action):
    """The steps lead through mappings and lists."""
    action.put("a")
    action.put("b")
    action.write("deploy.json", json.dumps({"serving": {"x": {"model": "a"}, "y": {"model": "b"}}}))
    assert action("schedule", manifest="deploy.json#serving.*.model") == 0
    assert action.checked == ["a", "b"]


def test_a_link_out_of_the_checkout_is_not_a_manifest(action: Action):
    """A pull request can hold any link, and the file behind it is not its own."""
    (action.folder / "secret.yaml").write_text("[x]")
    (action.checkout / "m.yaml").symlink_to(action.folder / "secret.yaml")
    assert action("schedule", manifest="m.yaml") == 2
    assert "leads out of the checkout" in action.log


def test_a_pull_request_cannot_soften_its_own_gate(action: Action, github: GitHubServer, changed):
    """Severities, exceptions and inputs are those of the base branch; the report says so."""
    action.put("a", broken=True)
    changed("a/config.json", CONFIG)
    github.set_file(CONFIG, "fail-on: warning", COMMITS["base"])
    action.write(CONFIG, "fail-on: never\nsuppress: [{rule: QG401, reason: I want it.}]")
    assert action.pull_request() == 1
    assert f"touches `{CONFIG}`" in action.notes


def test_what_a_pull_request_adds_to_the_config_is_checked(
    action: Action, github: GitHubServer, changed
):
    """A line that is new is checked now, and not only after it has been merged."""
    for name in ("a", "b"):
        action.put(name)
    github.set_file(CONFIG, "models: [a]", COMMITS["base"])
    action.write(CONFIG, "models: [a, b]")
    changed(CONFIG)
    assert action.pull_request() == 0
    assert action.checked == ["b"]


def test_a_proposed_config_that_is_wrong_is_told_and_not_used(
    action: Action, github: GitHubServer, changed
):
    """The gate goes on with the one that is in force."""
    action.put("a")
    changed("a/config.json", CONFIG)
    action.write(CONFIG, "fail-on: maybe\nmodel: [a]")
    assert action.pull_request() == 0
    assert "cannot be used" in action.notes


def test_a_config_that_cannot_be_asked_for_stops_the_gate(
    action: Action, github: GitHubServer, changed
):
    """It may list models, or a stricter limit."""
    action.put("a")
    changed("a/config.json")
    github.faults += [Fault("GET", "/contents/", 403, "no")]
    assert action.pull_request() == 3
    assert "the base branch cannot be asked for .github/quantgate.yml" in action.log


def test_on_a_branch_its_own_config_holds(action: Action):
    """It went through a pull request already."""
    action.put("a", broken=True)
    action.write(CONFIG, "fail-on: never")
    assert action("schedule") == 0


def test_an_input_wins_over_the_config(action: Action):
    """What stands in the workflow is nearer."""
    action.put("a", broken=True)
    action.write(CONFIG, "fail-on: never")
    assert action("schedule", fail_on="error") == 1


def test_a_finding_is_accepted_with_a_reason(action: Action):
    """It stays in the report as a note that tells the reason, and no longer fails the job."""
    action.put("a", broken=True)
    action("schedule")
    rules = {f["rule"] for f in action.report["models"][0]["findings"]}
    accepted = "\n".join(f"- {{rule: {r}, model: 'a*', reason: Known}}" for r in sorted(rules))
    action.write(CONFIG, f"suppress:\n{accepted}\n- {{rule: QG101, reason: Old}}")
    assert action("schedule") == 0
    found = action.report["models"][0]
    assert {f["severity"] for f in found["findings"]} == {"info"}
    assert found["findings"][0]["message"].startswith("Accepted by this repository: Known. ")
    assert found["verdict"] == "pass"
    assert "accepts QG101, which was not found" in action.notes


def test_reports_of_other_tiers_are_judged_by_the_config_as_well(
    action: Action, github: GitHubServer
):
    """What one job has accepted and another has not is one note."""
    action.put("a", broken=True)
    action("schedule")
    raw = json.dumps(action.report)
    rules = {f["rule"] for f in action.report["models"][0]["findings"]}
    action.write(CONFIG, "suppress:\n" + "\n".join(f"- {{rule: {r}, reason: R}}" for r in rules))
    action("schedule")
    judged = action.report
    action.write("reports/1.json", json.dumps(judged))
    action.write("reports/2.json", raw)
    assert action("schedule", reports="reports/*.json") == 0
    found = action.report["models"][0]
    assert [f["message"] for f in found["findings"]] == [
        f["message"] for f in judged["models"][0]["findings"]
    ]
    assert found["verdict"] == "pass"


def test_what_could_not_be_read_cannot_be_accepted(action: Action):
    """Nobody has seen it."""
    action.put("a")
    (action.checkout / "a/model.safetensors").write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"
    )
    action("schedule")
    rules = {f["rule"] for f in action.report["models"][0]["findings"]}
    action.write(
        CONFIG, "suppress:\n" + "\n".join(f"- {{rule: {r}, reason: Known.}}" for r in rules)
    )
    assert rules
    assert action("schedule") == 3


def test_a_rule_may_weigh_otherwise(action: Action):
    """Severities of the config change the verdict and the exit code."""
    action.put("a", broken=True)
    action("schedule")
    rules = {f["rule"] for f in action.report["models"][0]["findings"]}
    action.write(CONFIG, "rules: {" + ", ".join(f"{r}: warning" for r in rules) + "}")
    assert action("schedule") == 0
    assert action.report["models"][0]["verdict"] == "warn"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is not a mapping"),
        ("model: a", "'model': none of models,"),
        ("models: [1]", "models: a list of texts is needed"),
        ("fail-on: maybe", "fail-on: 'maybe' is none of error, warning, never"),
        ("rules: {QG999: error}", "no such rule: 'QG999'"),
        ("rules: {QG401: off}", "to leave findings out, give a reason under suppress"),
        ("rules: [QG401]", "rules: a mapping"),
        ("suppress: QG401", "suppress: a list is needed"),
        ("suppress: [{rule: QG401}]", "suppress: entry 1: a reason is needed"),
        ("suppress: [{rule: QG401, reason: '  '}]", "rule, reason, model and where are texts"),
        ("suppress: [{rule: QG401, reason: x, why: y}]", "a mapping of rule, reason"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_config_that_cannot_be_used_is_told(action: Action, text: str, said: str):
    """Exit code 2, and the file is named."""
    action.put("a")
    action.write(CONFIG, text)
    assert action("schedule") == 2
    assert said in action.log
    assert CONFIG in action.log


def test_the_config_of_the_documentation_can_be_used():
    """Every key of it is understood, and every rule is there."""
    page = (Path(__file__).parents[2] / "docs/action.md").read_text()
    (text,) = [b for b in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "suppress:" in b]
    config = parse_config(text)
    assert config.models == ("models/*", "org/model@0123abc")
    assert len(config.policy.severities) == len(config.policy.suppressions) == 1
    assert Settings.from_environment({}, config.inputs).comment == "on-failure"


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


def test_a_listed_model_that_is_removed_is_missed(action: Action, github: GitHubServer, changed):
    """The list still names it."""
    action.put("b")
    github.set_file("m.yaml", "[a, b]", COMMITS["base"])
    action.write("m.yaml", "[a, b]")
    changed("a/config.json", "a/model.safetensors")
    assert action.pull_request(manifest="m.yaml") == 3
    assert action.checked == ["a"]


def test_a_link_out_of_the_checkout_is_no_model(action: Action, github: GitHubServer, changed):
    """What lies beside the checkout is not the repository's."""
    action.put("a")
    (action.checkout / "a").rename(action.folder / "elsewhere")
    (action.checkout / "a").symlink_to(action.folder / "elsewhere")
    changed("a")
    assert action.pull_request(models="a") == 3
    assert "'a' is behind a link that leads out of the checkout" in action.log


@pytest.mark.parametrize("name", ["a" * 300, f"org/{'a' * 300}@1", f"{'a' * 300}*"])
def test_a_name_that_no_file_can_have_is_told(action: Action, name: str):
    """Not as a fault of ours."""
    action.put("a")
    action.write("m.yaml", json.dumps([name]))
    assert action("schedule", manifest="m.yaml") == 3
    assert action("schedule", models=name) == 3
    assert "please report it" not in action.log


@pytest.mark.parametrize(
    "text", ["[org/a@1]", "[{repo: org/a, revision: '1'}]", "[{repo: 'org/a@1'}]"]
)
def test_a_folder_does_not_stand_in_for_a_model_of_the_hub(
    action: Action, github: GitHubServer, changed, text: str
):
    """A good folder of that name must not answer for what will be deployed."""
    action.put("org/a@1")
    action.write("m.yaml", text)
    changed("m.yaml", "org/a@1/config.json")
    assert action.pull_request(manifest="m.yaml") == 3
    assert "is a model on the Hub and a path of the checkout" in action.log
    assert action.pull_request(models="org/a@1") == 3
    assert action.pull_request(models="./org/a@1") == 0


def test_a_repo_of_a_manifest_is_on_the_hub(action: Action):
    """Also without a revision; a path is no repository."""
    action.put("org/a")
    action.write("m.yaml", "[{repo: org/a}]")
    assert action("schedule", manifest="m.yaml") == 3
    action.write("m.yaml", "[{path: org/a}]")
    assert action("schedule", manifest="m.yaml") == 0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("m.yaml", "- {model: a, repo: org/bad}", "names several models"),
        ("m.yaml", "- {model: org/bad, model: a}", "a key twice"),
        ("m.json", '[{"model": "org/bad", "model": "a"}]', "a key twice"),
        (CONFIG, "fail-on: error\nfail-on: never", "a key twice"),
    ],
)
def test_what_two_readers_would_read_differently_stops_the_gate(
    action: Action, name: str, text: str, said: str
):
    """The one that deploys might take the other model."""
    action.put("a")
    action.write(name, text)
    assert action("schedule", manifest="" if name == CONFIG else name) in {2, 3}
    assert said in action.log


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
