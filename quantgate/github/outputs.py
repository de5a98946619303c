"""The two files a step leaves its results in: GITHUB_OUTPUT and GITHUB_STEP_SUMMARY.

The format of the first is that of `actions/toolkit`, packages/core/src/file-command.ts.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# GitHub refuses a longer summary as a whole, and an output beyond this size.
MAX_SUMMARY = 1024 * 1024
MAX_OUTPUT = 1024 * 1024

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def format_output(name: str, value: str, delimiter: str | None = None) -> str:
    """One output in heredoc form.

    Raises:
        ValueError: The name is not one, the value is too long, or holds the delimiter.
    """
    delimiter = delimiter or f"quantgate_{secrets.token_hex(16)}"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of an output")
    if delimiter in value:
        raise ValueError(f"the value of {name} contains its delimiter")
    if len(value.encode(errors="replace")) > MAX_OUTPUT:
        raise ValueError(f"the value of {name} is longer than {MAX_OUTPUT} bytes")
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def write_outputs(path: Path, values: Mapping[str, str]) -> None:
    """Append outputs to the file that GITHUB_OUTPUT names.

    Raises:
        ValueError: As `format_output`; nothing is written then.
        OSError: The file cannot be written.
    """
    text = "".join(format_output(name, value) for name, value in values.items())
    with path.open("a", encoding="utf-8", errors="replace", newline="\n") as file:
        file.write(text)


def summary_room(path: Path) -> int:
    """How many bytes the summary of this step still takes."""
    try:
        used = path.stat().st_size
    except FileNotFoundError:
        used = 0
    return max(0, MAX_SUMMARY - used)


def append_summary(path: Path, markdown: str) -> None:
    """Append to the file that GITHUB_STEP_SUMMARY names.

    Raises:
        ValueError: It would exceed what GitHub takes, which would lose all of it.
        OSError: The file cannot be written.
    """
    data = markdown.encode(errors="replace")
    room = summary_room(path)
    if len(data) > room:
        raise ValueError(f"a summary of {len(data)} bytes does not fit into {room}")
    with path.open("ab") as file:
        file.write(data)
