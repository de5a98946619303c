"""Paths in a tokenizer's configs, which lead out of the folder as a link does.

transformers hands what stands in tokenizer_config.json and special_tokens_map.json to the
tokenizer's class: with 5.19, a `vocab` of "/etc/passwd", or `init_inputs` with it, makes tokens of
the lines of that file for BertTokenizer, and releases before it took `vocab_file` so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.raw import MAX_CONFIG, UnreadError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "processor_config.json",
    "preprocessor_config.json",
)
"""What is handed on as arguments, by name."""

# Arguments that are files where they are text; the folder's own are found without them.
_VOCABULARIES = frozenset({"vocab", "merges"})
_BY_PLACE = "init_inputs"  # arguments without their names
# The name that the model had where it was saved: replaced before anything is read.
_HARMLESS = frozenset({"name_or_path"})


def take_paths_out(folder: Path) -> None:
    """Replace configs of a folder that name files, by ones that do not.

    Args:
        folder: One of ours; links in it are replaced, and what they lead to stays.

    Raises:
        UnreadError: One is too large, or makes no sense here; the message begins with its name.
        OSError: The folder cannot be read or written.
    """
    for name in FILES:
        path = folder / name
        config = _read(path) if path.is_file() else {}
        kept = {k: v for k, v in config.items() if not _is_path(k, v)}
        if len(kept) < len(config):
            path.unlink()
            path.write_text(json.dumps(kept), encoding="utf-8")


def _read(path: Path) -> Mapping[str, Any]:
    """A JSON object; empty if it is another value, of which nothing is handed on."""
    with path.open("rb") as stream:
        content = stream.read(MAX_CONFIG + 1)
    if len(content) > MAX_CONFIG:
        raise UnreadError(f"{path.name} is larger than {MAX_CONFIG} bytes")
    try:
        config = json.loads(content)
    except (ValueError, RecursionError):  # vLLM's Python may read what this one does not
        raise UnreadError(f"{path.name} is no JSON that can be read") from None
    return config if isinstance(config, dict) else {}


def _is_path(name: str, value: object) -> bool:
    if isinstance(value, list):
        return any(isinstance(v, str) and (name == _BY_PLACE or _names_a_file(v)) for v in value)
    if not isinstance(value, str) or name in _HARMLESS:
        return False
    return name in _VOCABULARIES or name.endswith("_file") or _names_a_file(value)


def _names_a_file(text: str) -> bool:
    """Whether it is the path of a file here, wherever the child works."""
    if "/" not in text:
        return False
    try:
        return ".." in Path(text).parts or Path(text).is_file()
    except (OSError, ValueError):
        return False
