"""The report in Markdown: inert, within its budget, and made by templates that filter."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Environment, nodes

from quantgate.findings import Verdict
from quantgate.github.publish import MARKDOWN_BUDGET
from quantgate.report.markdown import COMMENT_BUDGET, MARKER, MINIMUM_BUDGET, to_markdown
from quantgate.report.model import Report
from quantgate.report.templating import FILTERS, environment, render, template_folder
from quantgate.report.view import LEVELS, view
from tests.support import report_samples as samples
from tests.support.gfm import PARSER, skeleton


@pytest.mark.parametrize("text", samples.HOSTILE.values(), ids=samples.HOSTILE.keys())
def test_hostile_names_change_no_structure(text: str) -> None:
    """A report full of a hostile name has the tags, cells, links and headings of a harmless one."""
    hostile = to_markdown(samples.with_text(text))

    assert skeleton(hostile) == skeleton(to_markdown(samples.with_text("name")))
    assert hostile.count("<!--") == 1
    assert hostile.startswith(MARKER + "\n")


@settings(max_examples=30, deadline=None)
@given(st.text())
def test_any_name_changes_no_structure(text: str) -> None:
    """The same for arbitrary names."""
    expected = skeleton(to_markdown(samples.with_text("name")))

    assert skeleton(to_markdown(samples.with_text(text))) == expected


def assert_whole(text: str) -> None:
    """Tags are balanced, and every table row has the cells of its header."""
    html = " ".join(
        token.content
        for block in PARSER.parse(text)
        for token in (block, *(block.children or ()))
        if token.type in {"html_block", "html_inline"}
    )
    for tag in ("details", "summary", "sub"):
        assert len(re.findall(f"<{tag}( open)?>", html)) == html.count(f"</{tag}>")
    columns = 0
    for line in text.splitlines():
        if line.startswith("|--"):
            columns = line.count("|")
        elif line.startswith("|") and columns:
            assert len(re.findall(r"(?<!\\)\|", line)) == columns
        else:
            columns = 0


@pytest.mark.parametrize("case", samples.CASES)
@pytest.mark.parametrize("budget", [MINIMUM_BUDGET, COMMENT_BUDGET, MARKDOWN_BUDGET])
def test_budget_holds_and_nothing_is_cut(case: str, budget: int) -> None:
    """A report fits its budget, and what is shown is whole."""
    text = to_markdown(samples.CASES[case](), budget=budget)

    assert len(text.encode()) <= budget
    assert text.startswith(MARKER + "\n###")
    assert_whole(text)


@pytest.mark.parametrize("unit", ["漢`", "`漢 ", "漢 ", "|`", "@a ", "\U0001f600"])
def test_longest_texts_fit_the_smallest_budget(unit: str) -> None:
    """The verdict of many models with many rules and the costliest texts fits any budget."""
    text = unit * 2_000
    found = [
        samples.finding(rule=f"QG{i:03d}", name=text, message=text, fix=text, pattern=text)
        for i in range(100)
    ]
    bad = samples.model(*found, source=text, revision=text, summary=text)
    many = Report((samples.TARGET,) * 50, (bad,) * 50, notes=(text,) * 50)

    for report in (many, Report(many.targets, (bad,), notes=many.notes)):
        shown = to_markdown(report, budget=MINIMUM_BUDGET)
        assert len(shown.encode()) <= MINIMUM_BUDGET
        assert "Left out" in shown
        assert_whole(shown)


def test_detail_goes_in_order() -> None:
    """Each level shows no more than the one before: passing models go first, findings last."""
    report = Report(
        (samples.TARGET,), (*samples.mixed().models, *samples.many_errors(3_000).models)
    )
    sizes = [len(render(view(report, i), "x").encode()) for i in range(len(LEVELS))]

    assert sizes == sorted(sizes, reverse=True)
    assert not view(report, 1).passing
    assert view(report, 1).passing_count == 2
    assert view(report, 3).models[0].minor
    assert not view(report, 4).models[0].minor
    assert view(report, len(LEVELS) - 1).models[0].main.more


def test_many_findings_are_folded_by_turns() -> None:
    """Ten rows stand open, the first of every rule among them; all others are folded."""
    first = [samples.finding(pattern=f"a{i}") for i in range(40)]
    last = samples.split_ignore()
    model = view(Report((), (samples.model(*first, last),))).models[0]

    assert [f.pattern for f in model.main.shown] == [*(f"a{i}" for i in range(9)), last.pattern]
    assert model.folded.total == 31
    text = to_markdown(Report((), (samples.model(*first, last),)))
    assert "<details><summary>31 more findings</summary>" in text
    assert_whole(text)


def test_left_out_is_said_and_counted() -> None:
    """A report over its budget says what is missing, where it is, and how much of each rule."""
    text = to_markdown(samples.many_errors(3_000), elsewhere="the job summary")

    assert "> Left out" in text
    assert "the job summary" in text
    assert "warnings and notes" in text
    assert re.search(r"and 4\d\d more findings", text)
    assert "3,000 errors, 1 warning" in text
    assert "Left out" not in to_markdown(samples.several_findings())


def test_too_small_a_budget_is_refused() -> None:
    """A budget that cannot hold a verdict is a mistake of the caller."""
    with pytest.raises(ValueError, match="less than"):
        to_markdown(samples.passing(), budget=MINIMUM_BUDGET - 1)


def test_time_does_not_show() -> None:
    """Two runs that differ in their times and requests give the same bytes."""
    first = samples.model(samples.finding())
    second = replace(first, stats=replace(first.stats, seconds=9.9, requests=77))

    assert to_markdown(Report((), (first,))) == to_markdown(Report((), (second,)))


def test_report_without_models_says_so() -> None:
    """Nothing checked is not a pass."""
    text = to_markdown(Report((samples.TARGET,), ()))

    assert "❓ quantgate: no model was checked" in text


def test_order_of_models_is_worst_first() -> None:
    """Failing models come before unverified ones, these before warnings; passing ones collapse."""
    order = [m.model.verdict for m in view(samples.mixed()).models]

    assert order == [Verdict.FAIL, Verdict.UNVERIFIED, Verdict.WARN]


def test_foreign_links_are_not_links() -> None:
    """A documentation address that is not on GitHub is never linked."""
    bad = samples.finding(docs="https://evil.example/QG401", rule="QG401")

    assert "evil.example" not in to_markdown(Report((), (samples.model(bad),)))


TEMPLATES = sorted(template_folder().glob("*.md.j2"), key=lambda p: p.name)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_templates_print_through_filters_only(path) -> None:
    """Every {{ }} of every template ends in one of our filters, and none is called safe."""
    tree = Environment().parse(path.read_text())
    printed = [
        node
        for output in tree.find_all(nodes.Output)
        for node in output.nodes
        if not isinstance(node, nodes.TemplateData)
    ]

    assert printed
    assert all(isinstance(n, nodes.Filter) and n.name in FILTERS for n in printed)
    assert "safe" not in {n.name for n in tree.find_all(nodes.Filter)}


def test_unfiltered_output_is_an_error() -> None:
    """Were a template to print a datum as it is, rendering would stop."""
    with pytest.raises(TypeError, match="without a filter"):
        environment().from_string("{{ name }}").render(name="x")
