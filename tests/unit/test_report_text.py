"""The report for a terminal."""

from __future__ import annotations

import re

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgate.findings import Verdict
from quantgate.report.model import ModelReport, Stats
from quantgate.report.text import to_text, wants_colour
from quantgate.report.words import stats_words
from tests.support import report_samples as samples


def test_verdict_comes_first() -> None:
    """The first line tells the verdict on everything, with numbers."""
    first = to_text(samples.mixed()).splitlines()[0]

    assert first == (
        "FAIL quantgate: 1 of 5 models would not work in vLLM, 1 could not be verified "
        "(3 errors, 1 warning); checked for vLLM 0.33.0 on sm90"
    )


def test_without_weights_no_share_of_them_was_read() -> None:
    """What was read is told alone where there are no weight files to have a size."""
    unsized = ModelReport("m", None, Verdict.PASS, "", stats=Stats(bytes_read=1000))

    assert stats_words(unsized) == "0 tensors in 0 weight files; read 1.0 kB"


def test_every_model_and_finding_can_be_found_by_its_line() -> None:
    """One line per model and per finding, so that grep counts them."""
    lines = to_text(samples.mixed()).splitlines()

    assert sum(bool(re.match("(PASS|WARN|FAIL|UNVERIFIED) [^q]", line)) for line in lines) == 5
    assert sum(line.startswith("error[QG") for line in lines) == 3
    assert sum(line.startswith("warning[QG") for line in lines) == 1
    assert "error[QG401] missing-weight-scale: model.layers.*.mlp.down_proj × 48" in lines


@pytest.mark.parametrize("case", samples.CASES)
def test_colour_only_adds_colour(case: str) -> None:
    """Without colour there is no escape sequence; with it, the text is the same."""
    text = to_text(samples.CASES[case]())
    coloured = to_text(samples.CASES[case](), colour=True)

    assert "\x1b" not in text
    assert coloured != text
    assert click.unstyle(coloured) == text


@pytest.mark.parametrize(
    ("environ", "terminal", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
    ],
)
def test_colour_is_wanted(environ: dict[str, str], terminal: bool, expected: bool) -> None:
    """Colour is for terminals whose owner did not forbid it."""
    assert wants_colour(environ, is_terminal=terminal) is expected


def assert_inert(text: str) -> None:
    """As many lines as with a harmless name, none of them a command or unprintable."""
    lines = to_text(samples.with_text(text)).split("\n")

    assert len(lines) == len(to_text(samples.with_text("name")).split("\n"))
    assert all(line.isprintable() for line in lines)
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines)
    assert max(map(len, lines)) < 1_600


@pytest.mark.parametrize("text", samples.HOSTILE.values(), ids=samples.HOSTILE.keys())
def test_hostile_names_are_one_printable_line(text: str) -> None:
    """No name adds a line, moves the cursor, or commands the runner."""
    if text.strip():
        assert_inert(text)


@settings(max_examples=50, deadline=None)
@given(st.text(min_size=1).filter(lambda t: t.strip()))
def test_any_name_is_one_printable_line(text: str) -> None:
    """The same for arbitrary names."""
    assert_inert(text)
