"""Edits of config.json as suggestions on the lines of the pull request, to be applied by a click.

GitHub takes a suggestion only on lines that the diff shows, so what lies elsewhere is left to the
comment. A suggestion is made once; what is there already is not repeated.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.sources import SourceError, read_source
from quantgate.fixing.plan import CONFIG, plan_edits
from quantgate.report.inert import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quantgate.github.api import Api, PullFile
    from quantgate.report.model import ModelReport, Report

MAX_SUGGESTIONS = 20
MAX_LINES = 5000  # of a config.json; difflib is slow beyond
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_TEXT = "Suggested by quantgate, and checked against the tensors of the model."


@dataclass(frozen=True, slots=True)
class Suggestion:
    """New text for some lines of a file. `first` and `last` count from 1, both included."""

    path: str
    first: int
    last: int
    body: str

    def as_comment(self) -> dict[str, Any]:
        """As the API takes it."""
        comment: dict[str, Any] = {
            "path": self.path,
            "line": self.last,
            "side": "RIGHT",
            "body": self.body,
        }
        if self.first < self.last:
            comment |= {"start_line": self.first, "start_side": "RIGHT"}
        return comment


def suggest(report: Report, api: Api, number: int, commit: str) -> int:
    """Make the suggestions that are not there yet; how many.

    Raises:
        ApiError: GitHub refuses, or cannot be reached.
    """
    curable = [m for m in report.models if any(f.patch for f in m.findings)]
    if not curable:
        return 0
    files = {f.path: f for f in api.pull_files(number) or () if f.patch}
    found = [s for m in curable for s in _of_model(m, report, files)][:MAX_SUGGESTIONS]
    if not found:
        return 0
    author = api.viewer()
    there = {(path, body) for name, path, body in api.review_comments(number) if name == author}
    new = [s.as_comment() for s in found if (s.path, s.body) not in there]
    if new:
        api.review(number, commit, "Changes that quantgate suggests.", new)
    return len(new)


def _of_model(
    model: ModelReport, report: Report, files: dict[str, PullFile]
) -> Iterator[Suggestion]:
    path = str(PurePosixPath(model.source) / CONFIG)
    file = files.get(path)
    if file is None:
        return
    try:
        plan = plan_edits(read_source(model.source), report.targets)
    except SourceError:
        return
    edit = next((e for e in plan.edits if e.name == CONFIG), None)
    if edit is None:
        return
    before, after = (text.decode().split("\n") for text in (edit.before, edit.after))
    if max(len(before), len(after)) <= MAX_LINES:
        yield from suggestions(path, file.patch, before, after)


def suggestions(
    path: str, patch: str, before: Sequence[str], after: Sequence[str]
) -> list[Suggestion]:
    """The edits from one text to the other that lie within the hunks of a patch.

    Nothing is suggested where the patch is not about this text, or where a line holds what acts on
    its surroundings.
    """
    hunks = list(_hunks(patch))
    if any(before[n - 1 : n] != [line] for hunk in hunks for n, line in hunk.items()):
        return []  # the checkout is the merge with the base branch, which changed the file as well
    found = []
    for i1, i2, j1, j2 in _edits(before, after):
        lines, new = range(i1 + 1, i2 + 1), after[j1:j2]
        if any(set(lines) <= hunk.keys() for hunk in hunks) and all(visible(x) == x for x in new):
            found.append(Suggestion(path, lines[0], lines[-1], _body(new)))
    return found


def _edits(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Which lines are replaced by which, none of these ranges of old lines empty.

    Edits with one line between them are one. What is inserted takes a line beside it along.
    """
    edits: list[tuple[int, int, int, int]] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        if edits and i1 - edits[-1][1] <= 1:
            edits[-1] = (edits[-1][0], i2, edits[-1][2], j2)
        else:
            edits.append((i1, i2, j1, j2))
    return [edit if edit[0] < edit[1] else _widened(*edit) for edit in edits]


def _widened(i1: int, i2: int, j1: int, j2: int) -> tuple[int, int, int, int]:
    return (i1 - 1, i2, j1 - 1, j2) if i1 else (i1, i2 + 1, j1, j2 + 1)


def _hunks(patch: str) -> Iterator[dict[int, str]]:
    """Of each hunk the lines of the new file, by number."""
    lines: dict[int, str] = {}
    number = 0
    for line in patch.split("\n"):
        start = _HUNK.match(line)
        if start:
            if lines:
                yield lines
            lines, number = {}, int(start[1])
        elif line[:1] in {" ", "+"}:
            lines[number] = line[1:]
            number += 1
    if lines:
        yield lines


def _body(lines: Sequence[str]) -> str:
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([_TEXT, "", f"{fence}suggestion", *lines, fence])
