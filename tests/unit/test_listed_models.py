"""Models that a repository lists: by patterns, in a manifest, on the Hub."""

from __future__ import annotations

import json

import pytest

from tests.support.github_server import COMMITS, GitHubServer
from tests.unit.conftest import CONFIG, Action


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
