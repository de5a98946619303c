"""Untrusted text does nothing in Markdown, in a terminal, in a log or in a workflow command."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from quantgate.report import inert
from tests.support.report_samples import HOSTILE

MARKDOWN = MarkdownIt("gfm-like", {"linkify": False, "html": True})
ALPHABET = st.sampled_from("`|\\<>!-[](){}*_~#@:$&+=.1a/ \n\r\t\x00\x1b\u202e\u05d0é漢\ud800")
TEXT = st.one_of(st.text(), st.text(ALPHABET, max_size=60))


def tokens(markdown: str) -> list[tuple[str, str]]:
    """The flat (type, content) of everything Markdown sees; content of code and text only."""
    flat = []
    for block in MARKDOWN.parse(markdown):
        flat.append((block.type, block.content if block.type == "fence" else ""))
        flat += [(t.type, t.content) for t in block.children or []]
    return flat


def kinds(markdown: str) -> list[str]:
    """The types alone, without the text between code spans."""
    return [kind for kind, _ in tokens(markdown) if kind != "text"]


def table(cell: str) -> str:
    """A table with this cell in the middle of a row."""
    return f"| a | b | c |\n|--|--|--|\n| x | {cell} | y |\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model.layers.0.weight", "`model.layers.0.weight`"),
        ("a`b", "``a`b``"),
        ("`a`", "`` `a` ``"),
        ("``", "``` `` ```"),
        ("a\nb", "`a\\x0ab`"),
        (" a ", "`  a  `"),
        ("", '`""`'),
        ("a|b", "`a|b`"),
    ],
)
def test_code_span_shows_the_name(text: str, expected: str) -> None:
    """A name becomes one code span whose fence is longer than any run of backticks in it."""
    assert inert.code(text) == expected


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("re:.*(q|k)_proj", "re:.*(q|k)_proj"),
        ("a\\|b", "a\\\\x7cb"),
        ("a\\\\|b|", "a\\\\\\x7cb|"),
        ("||", "||"),
    ],
)
def test_bars_in_a_cell_are_shown(text: str, shown: str) -> None:
    """A bar within a table stays a bar, except after a backslash, where parsers disagree."""
    assert ("code_inline", shown) in tokens(table(inert.code_cell(text)))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_names_are_a_single_code_span(text: str) -> None:
    """Whatever a name holds, Markdown sees one code span, in a line and in a table."""
    assert kinds(f"See {inert.code(text)}.") == kinds("See `x`.")
    assert kinds(table(inert.code_cell(text))) == kinds(table("`x`"))


@given(TEXT)
def test_any_name_is_a_single_code_span(text: str) -> None:
    """The same for arbitrary text."""
    assert kinds(f"See {inert.code(text)}.") == kinds("See `x`.")
    assert kinds(table(inert.code_cell(text))) == kinds(table("`x`"))


def assert_prose(text: str) -> None:
    """Only text and code spans, and nothing in the text that GitHub links by itself."""
    for markdown, wrap in ((inert.prose(text), ""), (inert.prose_cell(text), table("\0"))):
        whole = wrap.replace("\0", markdown) if wrap else markdown
        found = tokens(whole)
        extra = set(kinds(whole)) - set(kinds(wrap or "x")) - {"code_inline"}
        assert not extra
        if wrap:
            assert [k for k in kinds(whole) if k != "code_inline"] == kinds(table("x"))
        for kind, content in found:
            if kind == "text":
                assert not re.search(r"[@#<>&`*_~$\[\]{}|]|://|www\.|GH-\d|:\w", content)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_sentences_are_text_and_code(text: str) -> None:
    """A sentence that quotes a hostile name holds text and code spans, nothing else."""
    assert_prose(text)
    assert_prose(f"What is `{text}` or {text}?")


@given(TEXT)
def test_any_sentence_is_text_and_code(text: str) -> None:
    """The same for arbitrary text."""
    assert_prose(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Add it to `ignore`, or not.", "Add it to `ignore`, or not."),
        ("set group_size (128)", "set `group_size` (128)"),
        ("ask @octocat, see #12", "ask `@octocat`, see `#12`"),
        ("at https://evil.example/x.", "at `https://evil.example/x`."),
        ("`a`@b", "`a@b`"),
        ("commit 3f2a91c0", "commit `3f2a91c0`"),
        ("- item", "\\- item"),
        ("1. item", "1\\. item"),
        ("---", "\\---"),
        ("two\n\nlines", "two lines"),
    ],
)
def test_prose_reads_well(text: str, expected: str) -> None:
    """Plain words stay plain, quoted names stay quoted, suspicious words become code."""
    assert inert.prose(text) == expected


@given(TEXT)
def test_plain_text_cannot_command(text: str) -> None:
    """A name in a terminal or log is one printable line that is no workflow command."""
    for shown in (inert.plain(text), inert.plain_prose(text)):
        assert shown.isprintable()
        assert shown.encode().decode() == shown
        assert not shown.lstrip().startswith("::")
        assert "##[" not in shown
        assert "<!--" not in shown


@given(TEXT, st.integers(10, 50))
def test_plain_text_is_short(text: str, limit: int) -> None:
    """Nothing is longer than its limit, and a short printable name is left alone."""
    shown = inert.plain(text, limit)

    assert len(shown) <= limit
    if re.fullmatch(r"[a-z.]{0,10}", text):
        assert shown == text


def test_long_names_keep_both_ends() -> None:
    """The middle of a long name goes."""
    assert inert.plain("a" * 100 + "z" * 100, 11) == "aaaaa…zzzzz"


@given(st.lists(TEXT, max_size=5))
def test_fenced_block_cannot_be_left(lines: list[str]) -> None:
    """Lines in a fence stay in it."""
    shown = inert.fenced([f"+ {line}" for line in lines], "diff")

    assert [kind for kind, _ in tokens(shown)] == ["fence"]


def test_workflow_command_escapes() -> None:
    """Data and properties are escaped as the runner expects."""
    assert inert.command_data("50%\r\n::error::a,b") == "50%25%0D%0A::error::a,b"
    assert inert.command_property("a:b,c%\n") == "a%3Ab%2Cc%25%0A"
