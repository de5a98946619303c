"""Paths that a tokenizer's configs name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from quantgate.checkpoint.raw import UnreadError
from quantgate.vllm.smoke.named_paths import FILES, take_paths_out

if TYPE_CHECKING:
    from pathlib import Path


def config(folder: Path, name: str, content: object) -> Path:
    """A config that lies elsewhere, and the link to it."""
    real = folder / "elsewhere" / name
    real.parent.mkdir(exist_ok=True)
    real.write_text(json.dumps(content))
    made = folder / "made"
    made.mkdir(exist_ok=True)
    (made / name).symlink_to(real)
    return made / name


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "bad",
    [
        {"vocab": "/etc/passwd"},
        {"merges": "merges"},
        {"vocab_file": "../../secret"},
        {"tokenizer_file": "/none"},
        {"anything": "/etc/passwd"},
        {"anything": "../none"},
        {"init_inputs": ["vocab.txt"]},
        {"anything": ["a", "/etc/passwd"]},
    ],
)
def test_paths_are_taken_out(tmp_path: Path, name: str, bad: dict[str, Any]) -> None:
    """The rest stays as it was, and so does the user's own file."""
    rest = {"tokenizer_class": "BertTokenizer", "unk_token": {"content": "x"}}
    path = config(tmp_path, name, {**rest, **bad})
    take_paths_out(path.parent)
    assert json.loads(path.read_text()) == rest
    assert json.loads((tmp_path / "elsewhere" / name).read_text()) == {**rest, **bad}


@pytest.mark.parametrize(
    "content",
    [
        {"init_inputs": [], "additional_special_tokens": ["/", "</s>", "a/b"]},
        {"vocab": {"/etc/passwd": 1}, "vocab_file": None, "merges": []},
        {"name_or_path": "/etc/passwd", "unk_token": "/", "bos_token": "</s>", "x": "a/b"},
        {"chat_template": "{{ x }}/" * 2000, "y": "/\u0000"},
        ["/etc/passwd"],
        "/etc/passwd",
    ],
)
def test_other_things_stay(tmp_path: Path, content: object) -> None:
    """What names no file is the file that it was."""
    path = config(tmp_path, "tokenizer_config.json", content)
    take_paths_out(path.parent)
    assert path.is_symlink()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no JSON"),
        (b"[[", "is no JSON"),
        (b"\xff", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is no JSON"),
        (b" " * 32_000_001, "is larger than"),
    ],
)
def test_what_cannot_be_looked_through(tmp_path: Path, content: bytes, words: str) -> None:
    """What another Python could read after all is not given to it."""
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(UnreadError, match=f"^tokenizer_config.json {words}"):
        take_paths_out(tmp_path)
