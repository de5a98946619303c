"""A user's template changes what stands below the verdict, and nothing that makes text inert."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from quantgate.cli import app
from quantgate.report.markdown import MARKER, MINIMUM_BUDGET, to_markdown
from quantgate.report.templating import MAX_TEMPLATE, TemplateError
from tests.support import report_samples as samples
from tests.support.gfm import skeleton

BASE = '{% extends "report.md.j2" %}'
FOOTER = f"{BASE}{{% block footer %}}Ask the {{{{ 'serving' | code }}}} team.\n{{% endblock %}}"
BLOCKS = ("intro", "comparison", "overview", "model", "passing", "notes", "footer")


def test_block_replaces_a_part_only() -> None:
    """What a template does not name stays as it is, down to the byte."""
    ours = to_markdown(samples.mixed())
    theirs = to_markdown(samples.mixed(), template=FOOTER)

    body, _, _ = ours.rpartition("<sub>")
    assert theirs == f"{body}Ask the `serving` team.\n"


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_can_be_replaced(name: str) -> None:
    """Each named block is there, and what it showed is gone."""
    report = samples.mixed()
    template = f"{BASE}{{% block {name} %}}A text of our own.\n{{% endblock %}}"
    text = to_markdown(report, template=template)

    assert "A text of our own." in text
    assert text != to_markdown(report)


def test_template_without_a_base_keeps_marker_and_verdict() -> None:
    """Marker and verdict stand above whatever a template prints, and cannot be left out."""
    ours = to_markdown(samples.one_error()).split("\n")
    text = to_markdown(samples.one_error(), template="Nothing to see.")

    assert text == f"{MARKER}\n{ours[1]}\n\nNothing to see.\n"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ nothing | prose }}", "'nothing' is undefined"),
        ("{{ report.nothing | prose }}", "no attribute 'nothing'"),
        ("{{ report.models[0].source }}", "prints str without a filter"),
        ("{{ report.models[0].source | safe }}", "prints Markup without a filter"),
        ("{{ (report.models[0].source | code)[1:] }}", "prints str without a filter"),
        ("{{ ('a' | code) ~ 'b' }}", "prints str without a filter"),
        ("{% set x %}{{ 'a' | code }}{% endset %}{{ x }}", "prints str without a filter"),
        ("{% filter upper %}{{ 'a' | code }}{% endfilter %}", "is not allowed"),
        ("\n{% if %}", "line 2: Expected an expression"),
        ("{% include '/etc/passwd' %}", "TemplateNotFound"),
        ("{% include '../pyproject.toml' %}", "TemplateNotFound"),
        ("{{ report.__class__ | prose }}", "SecurityError"),
        ("{{ words.tally.__globals__ | prose }}", "SecurityError"),
        ("{% for i in range(10000000) %}{% endfor %}", "OverflowError"),
        ("{{ (1 // 0) | number }}", "ZeroDivisionError"),
        ("x" * (MAX_TEMPLATE + 1), "longer than"),
    ],
)
def test_unusable_template_is_a_clear_error(template: str, message: str) -> None:
    """One printable sentence, whatever the template does."""
    with pytest.raises(TemplateError) as error:
        to_markdown(samples.one_error(), template=template)

    assert message in str(error.value)
    assert str(error.value).isprintable()


def test_template_keeps_the_budget() -> None:
    """A template that prints too much at every level of detail is refused, not cut."""
    with pytest.raises(TemplateError, match="at any detail"):
        to_markdown(samples.passing(), template="x" * 30_000, budget=MINIMUM_BUDGET)


@pytest.mark.parametrize("text", samples.HOSTILE.values(), ids=samples.HOSTILE.keys())
def test_hostile_names_are_inert_in_a_template(text: str) -> None:
    """A template that prints a name through a filter gets a code span and no more."""
    template = (
        f"{BASE}{{% block model %}}- {{{{ item.model.source | code }}}}: "
        "{{ item.model.findings[0].message | prose }}\n{% endblock %}"
    )
    hostile = to_markdown(samples.with_text(text), template=template)

    assert skeleton(hostile) == skeleton(to_markdown(samples.with_text("name"), template=template))


def test_command_takes_a_template(tmp_path: Path) -> None:
    """`--template` renders the Markdown; a template that cannot be used is wrong usage."""
    (tmp_path / "own.md.j2").write_text(FOOTER)
    (tmp_path / "bad.md.j2").write_text("{{ x }}")
    run = CliRunner().invoke
    arguments = ["check", str(tmp_path), "--markdown", "-", "--template"]

    good = run(app, [*arguments, str(tmp_path / "own.md.j2")])
    assert good.output.endswith("Ask the `serving` team.\n")
    for name in ("bad.md.j2", "gone.md.j2"):
        bad = run(app, [*arguments, str(tmp_path / name)])
        assert bad.exit_code == 2
        assert "template" in bad.output


def test_documented_blocks_are_the_blocks() -> None:
    """docs/templates.md names every block and no other."""
    page = (Path(__file__).parents[2] / "docs/templates.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.split("\n") if line.startswith("| `")]

    assert [r for r in rows if r.strip("`") in BLOCKS] == [f"`{name}`" for name in BLOCKS]
