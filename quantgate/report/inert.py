"""Untrusted text made inert: for Markdown, for a terminal or log, and for workflow commands.

Names in a checkpoint (tensors, files, config keys and values), repository ids and error texts of
servers are written by strangers. safetensors accepts a tensor name that holds a newline, a
backtick or `::error::`. Whatever leaves quantgate passes one of these functions; there is no
other way to print a datum.

The result for Markdown is an `Inert` string, which the templates demand (see `markdown.py`).
"""

from __future__ import annotations

import re
import unicodedata
from typing import NewType

NAME_LIMIT = 160
PROSE_LIMIT = 700
ELLIPSIS = "…"


class Inert(str):
    """Markdown without any effect beyond what its filter intended."""

    __slots__ = ()


Escaped = NewType("Escaped", str)

_PLAIN = re.compile(r"[ -~]*")
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


def _is_quiet(char: str) -> bool:
    """Whether a character shows as itself: printable, left to right, not combining."""
    return (
        char.isprintable()
        and ord(char) <= 0xFFFF
        and unicodedata.bidirectional(char) not in _RIGHT_TO_LEFT
        and not unicodedata.category(char).startswith("M")
    )


def _escape(char: str) -> str:
    point = ord(char)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def visible(text: str) -> str:
    r"""Write out what cannot be seen or would act on its surroundings: a newline becomes `\x0a`.

    That covers control and format characters (ANSI, bidi marks), right-to-left letters and
    combining marks (they rearrange or overprint their neighbours), and characters above U+FFFF
    (parts of the GitHub API reject them). The openings of an HTML comment (our marker) and of
    both generations of workflow commands (`::` at the start, `##[` anywhere) are broken up.
    """
    if not _PLAIN.fullmatch(text):
        text = "".join(c if _is_quiet(c) else _escape(c) for c in text)
    text = text.replace("<!--", "<\\x21--").replace("##[", "#\\x23[")
    stripped = text.lstrip(" ")
    if stripped.startswith("::"):
        text = text[: len(text) - len(stripped)] + "\\x3a" + stripped[1:]
    return text


def shorten(text: str, limit: int = NAME_LIMIT) -> str:
    """At most `limit` characters; the middle goes, as the ends of a name tell it apart."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return text[: limit - 1 - tail] + ELLIPSIS + text[len(text) - tail :]


def plain(text: str, limit: int = NAME_LIMIT) -> str:
    """One line for a terminal or a log."""
    # Cutting first bounds the work for a name of many megabytes.
    return shorten(visible(shorten(text, 4 * limit)), limit)


def plain_prose(text: str, limit: int = 2 * PROSE_LIMIT) -> str:
    """Sentences on one line for a terminal or a log."""
    # Escapes lengthen the text, up to tenfold.
    return _clip(visible(_clip(text, limit)), limit)


def _clip(text: str, limit: int) -> str:
    """Collapse white space and cut the end at a word."""
    text = " ".join(text[: 4 * limit].split())
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    return (head.rpartition(" ")[0] or head) + ELLIPSIS


def _span(text: str, *, in_table: bool) -> str:
    """A code span of one visible line."""
    text = text or '""'
    if in_table:
        # `\|` in a table is a bar. After a backslash parsers disagree on who escapes whom.
        text = text.replace("\\|", "\\\\x7c").replace("|", "\\|")
    runs = re.findall(r"`+", text)
    fence = "`" * (max(map(len, runs), default=0) + 1)
    strips = text[0] == text[-1] == " " and text.strip(" ")
    pad = " " if text[0] == "`" or text[-1] == "`" or strips else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def code(text: str, limit: int = NAME_LIMIT) -> Inert:
    """A name as a Markdown code span."""
    return Inert(_span(plain(text, limit), in_table=False))


def code_cell(text: str, limit: int = NAME_LIMIT) -> Inert:
    """A name as a Markdown code span within a table."""
    return Inert(_span(plain(text, limit), in_table=True))


_SPAN = re.compile(r"`([^`]+)`")
_WORD = re.compile(r"( +)|([^ ]+)")
_CORE = re.compile(r"([(\"'“]*)(.*?)([).,;:!?\"'”]*)")
_HARMLESS = re.compile(r"[A-Za-z0-9.,;()'\"?!%+=/…→×≥≤≠–—’“”·-]*:?")
# What GitHub turns into links by itself: hosts, issues and commits.
_LINKED = re.compile(r"www\.|GH-\d|(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])", re.IGNORECASE)
_BLOCK = re.compile(r"(?:\d{1,9}(?=[.)](?: |$))|(?=[-+=]))")


def _pieces(text: str) -> list[tuple[bool, str]]:
    """Split prose into (is code, text): what its author quoted, and every word that could act."""
    pieces: list[tuple[bool, str]] = []

    def put(piece: str, *, is_code: bool) -> None:
        if not piece:
            return
        if pieces and pieces[-1][0] == is_code:
            # Two code spans must not touch: their fences would join.
            pieces[-1] = (is_code, pieces[-1][1] + piece)
        else:
            pieces.append((is_code, piece))

    for index, part in enumerate(_SPAN.split(text)):
        if index % 2:
            put(part, is_code=True)
            continue
        for space, word in _WORD.findall(part):
            if space or (_HARMLESS.fullmatch(word) and not _LINKED.search(word)):
                put(space or word, is_code=False)
                continue
            match = _CORE.fullmatch(word)
            before, core, after = match.groups() if match else ("", word, "")
            put(before, is_code=False)
            put(core, is_code=True)
            put(after, is_code=False)
    return pieces


def _prose(text: str, limit: int, *, in_table: bool) -> Inert:
    pieces = _pieces(plain_prose(text, limit))
    result = "".join(_span(p, in_table=in_table) if is_code else p for is_code, p in pieces)
    block = _BLOCK.match(result)
    if block:
        result = f"{block[0]}\\{result[block.end() :]}"
    return Inert(result)


def prose(text: str, limit: int = PROSE_LIMIT) -> Inert:
    """Sentences in Markdown: quoted names stay code spans, and so does every suspicious word.

    Nothing is escaped by backslashes: a word either consists of letters, digits and harmless
    punctuation, or becomes a code span. GitHub resolves mentions and issue numbers after
    Markdown, where an escape no longer shows; a code span is the one thing it leaves alone.
    """
    return _prose(text, limit, in_table=False)


def prose_cell(text: str, limit: int = PROSE_LIMIT) -> Inert:
    """Sentences within a Markdown table."""
    return _prose(text, limit, in_table=True)


def fenced(lines: list[str], language: str, limit: int = NAME_LIMIT) -> Inert:
    """Lines as a fenced code block; `language` is ours."""
    shown = [plain(line, limit) for line in lines]
    longest = max((len(run) for line in shown for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return Inert("\n".join([fence + language, *shown, fence]))


def command_data(text: str) -> Escaped:
    """The message of a workflow command (`actions/toolkit`, packages/core/src/command.ts)."""
    return Escaped(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def command_property(text: str) -> Escaped:
    """The value of a property of a workflow command."""
    return Escaped(command_data(text).replace(":", "%3A").replace(",", "%2C"))
