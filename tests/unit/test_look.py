"""The comment compared with the base's report, and in a template of the repository's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quantgate.report.markdown import MARKER
from tests.support.github_server import COMMITS

if TYPE_CHECKING:
    from tests.support.github_server import GitHubServer
    from tests.unit.conftest import Action

TEMPLATE = '{% extends "report.md.j2" %}{% block footer %}Ask the serving team.\n{% endblock %}'


def body(github: GitHubServer) -> str:
    """The text of the only comment."""
    (comment,) = github.comments[3]
    return comment["body"]


def test_comment_tells_what_the_change_brought(action: Action, github: GitHubServer) -> None:
    """With the report of the base, findings are new or were there, in comment and summary."""
    action.put("a")
    action("schedule")
    base = (action.folder / "run0/quantgate/report.json").read_text()
    action.put("a", broken=True)
    github.set_file("base.json", base, COMMITS["base"])

    assert action.pull_request(all="true", base_report="base.json") == 1
    assert "Against the base: 1 new finding." in body(github)
    assert "Against the base: 1 new finding." in (action.folder / "run1/summary").read_text()


def test_a_pull_request_does_not_say_what_was_there_before(
    action: Action, github: GitHubServer
) -> None:
    """A report that it brings along would call its findings old ones."""
    action.put("a", broken=True)
    action("schedule")
    action.write("base.json", (action.folder / "run0/quantgate/report.json").read_text())

    assert action.pull_request(all="true", base_report="base.json") == 1
    assert "'base.json' is no report of the base: there is no such file" in action.log
    assert "Against the base" not in body(github)


def test_on_a_branch_its_own_base_report_is_read(action: Action) -> None:
    """Nothing is proposed there."""
    action.put("a", broken=True)
    action("schedule")
    action.write("base.json", (action.folder / "run0/quantgate/report.json").read_text())

    assert action("schedule", base_report="base.json") == 1
    assert "Against the base: 1 " in (action.folder / "run1/summary").read_text()


@pytest.mark.parametrize("text", [None, "{", '{"schema_version": 1}'])
def test_unusable_base_report_changes_nothing_else(
    action: Action, github: GitHubServer, text: str | None
) -> None:
    """The gate says what is wrong with it, and compares with nothing."""
    action.put("a", broken=True)
    if text is not None:
        github.set_file("base.json", text, COMMITS["base"])

    assert action.pull_request(all="true", base_report="base.json") == 1
    assert "'base.json' is no report of the base" in action.log
    assert "Against the base" not in body(github)


def test_template_of_the_base_branch_is_used(action: Action, github: GitHubServer) -> None:
    """What the pull request proposes as template does not show."""
    action.put("a", broken=True)
    action.write("own.md.j2", "All is well.")
    github.set_file("own.md.j2", TEMPLATE, COMMITS["base"])

    assert action.pull_request(all="true", template="own.md.j2") == 1
    assert body(github).rstrip().endswith("Ask the serving team.")
    assert "All is well." not in body(github)


@pytest.mark.parametrize(
    ("template", "said"),
    [(None, "no such file"), ("{{ x }}", "'x' is undefined"), ("{% if %}", "line 1")],
)
def test_unusable_template_is_left_aside(
    action: Action, github: GitHubServer, template: str | None, said: str
) -> None:
    """A gate does not fall silent over a template: ours is used, with a warning."""
    action.put("a", broken=True)
    if template is not None:
        github.set_file("own.md.j2", template, COMMITS["base"])

    assert action.pull_request(all="true", template="own.md.j2") == 1
    assert body(github).startswith(f"{MARKER}\n### ❌ quantgate: 1 error in `a`")
    assert "::warning title=quantgate::'own.md.j2' is not used: " in action.log
    assert said in action.log


def test_template_that_fails_later_is_left_aside(action: Action, github: GitHubServer) -> None:
    """What only a report with findings brings to light costs the template, not the comment."""
    action.put("a", broken=True)
    text = "{% for m in report.models %}{{ m.nothing }}{% endfor %}"
    github.set_file("own.md.j2", text, COMMITS["base"])

    assert action.pull_request(all="true", template="own.md.j2") == 1
    assert body(github).startswith(f"{MARKER}\n### ❌ quantgate: 1 error in `a`")


def test_template_is_read_from_the_checkout_elsewhere(action: Action) -> None:
    """On a push or schedule nothing is proposed."""
    action.put("a")
    action.write("own.md.j2", TEMPLATE)

    assert action("schedule", template="own.md.j2") == 0
    assert (action.folder / "run0/summary").read_text().endswith("Ask the serving team.\n")
