"""Configs, recipes and indexes that cannot be read, with hostile ones among them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from quantgate.checkpoint import Checkpoint, DefectKind, Index, WeightFile, open_checkpoint
from quantgate.checkpoint import local as local_module
from quantgate.checkpoint.raw import choose_index
from tests.support.folders import model, weights


def test_index_names_are_never_opened(tmp_path, monkeypatch):
    """What an index says leads to no file access, be it `..`, absolute or a sub-folder."""
    opened: list[str] = []
    real_open = os.open

    def spy(path, *rest, **options):
        opened.append(os.fspath(path))
        return real_open(path, *rest, **options)

    monkeypatch.setattr(local_module.os, "open", spy)
    names = ["../../etc/passwd", "/etc/passwd", "sub/model.safetensors", "..", "absent.safetensors"]
    model(tmp_path / "sub", model__safetensors=weights("s"))
    model(
        tmp_path,
        config__json={},
        model__safetensors=weights("a"),
        model__safetensors__index__json={"weight_map": dict(zip("abcde", names, strict=True))},
    )
    found = open_checkpoint(str(tmp_path))
    assert found.index is not None
    assert list(found.index.weight_map.values()) == names
    assert [f.name for f in found.files] == ["model.safetensors"]
    assert found.loaded_files == ()
    assert sorted(Path(p).name for p in opened) == [
        "config.json",
        "model.safetensors",
        "model.safetensors.index.json",
    ]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff{}", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[" * 200_000, "nested"),
        (b"[" * 101 + b"]" * 101, "nested"),
        (b'{"a":' * 500 + b"1" + b"}" * 500, "nested"),
        (b"1" * 5000, "not JSON"),
        (b"1" * 310, "out of range"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udc00": 1}', "surrogate"),
    ],
)
def test_broken_configs(tmp_path, content, error):
    """A config that cannot be read keeps the reason and has no value."""
    model(tmp_path, config__json=content)
    found = open_checkpoint(str(tmp_path)).configs["config.json"]
    assert found.value is None
    assert error in found.error
    assert found.kind is DefectKind.MALFORMED


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"[]", []),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": Infinity}', {"a": float("inf")}),
        (b'{"\\ud83d\\ude00": "\xc3\xa9"}', {"\U0001f600": "\u00e9"}),
        (b"[" * 100 + b"]" * 100, None),
    ],
)
def test_odd_configs_are_read_as_python_does(tmp_path, content, value):
    """Equal keys, NaN and a document that is no object are values, not errors."""
    model(tmp_path, config__json=content)
    found = open_checkpoint(str(tmp_path)).configs["config.json"]
    assert found.error == ""
    assert found.kind is None
    assert found.value == (json.loads(content) if value is None else value)


def test_a_large_config_is_not_read(tmp_path, monkeypatch):
    """Above the limit there is an error instead of a value."""
    monkeypatch.setattr(local_module, "MAX_CONFIG", 100)
    model(tmp_path, config__json={"a": "x" * 100})
    found = open_checkpoint(str(tmp_path)).configs["config.json"]
    assert found.kind is DefectKind.TOO_LARGE


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [1]\nb: *x\n",
        "a: &x [*x]\n",
        "!!python/object/apply:os.system ['true']",
        "!!int ''",
        "!!bool maybe",
        "!!timestamp [1]",
        "? [a]\n: 1",
        "- [" * 5000,
        "a: 1\n---\nb: 2\n",
        "a: \x07",
        'a: "\\ud800"',
        "a: " + ":".join(["1"] * 10_000),
        "a: !!binary aGk=",
        "!!set {a, b}",
        "[" * 150 + "]" * 150,
        "a: " + "x" * 256_000,
    ],
)
def test_hostile_yaml(tmp_path, text):
    """Aliases, tags of Python, wrong tags and depth are errors, never a traceback or a bomb."""
    model(tmp_path, config__json={}, recipe__yaml=text)
    found = open_checkpoint(str(tmp_path)).configs["recipe.yaml"]
    assert found.value is None
    assert found.error
    assert found.kind in {DefectKind.MALFORMED, DefectKind.TOO_LARGE}


@pytest.mark.parametrize(
    "content", [b"x", b"[]", b"{}", b'{"weight_map": []}', b'{"weight_map": {"a": 1}}']
)
def test_broken_index(tmp_path, content):
    """An unusable index keeps the reason, and all weight files count as read."""
    name = "model.safetensors.index.json"
    model(tmp_path, a__safetensors=weights("a"), **{name.replace(".", "__"): content})
    found = open_checkpoint(str(tmp_path))
    assert found.index is not None
    assert found.index.name == name
    assert found.index.error
    assert set(found.tensors) == {"a"}


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], None),
        (["model.safetensors.index.json"], "model.safetensors.index.json"),
        (["other.safetensors.index.json"], "other.safetensors.index.json"),
        (["other.safetensors.index.json", "another.safetensors.index.json"], None),
        (
            ["a.safetensors.index.json", "model.safetensors.index.json"],
            "model.safetensors.index.json",
        ),
        (
            [
                "consolidated.safetensors",
                "consolidated.safetensors.index.json",
                "model.safetensors.index.json",
            ],
            "consolidated.safetensors.index.json",
        ),
        (
            ["consolidated.safetensors", "model.safetensors.index.json"],
            "model.safetensors.index.json",
        ),
        (["pytorch_model.bin.index.json"], None),
    ],
)
def test_choice_of_the_index(names, chosen):
    """The index is the one vLLM looks for, otherwise the only one."""
    assert choose_index(names) == chosen


def test_vllm_reads_only_consolidated_files():
    """Beside `consolidated*.safetensors` the others and their index do not count."""
    files = tuple(WeightFile(n, 1, None) for n in ("consolidated.safetensors", "model.safetensors"))
    index = Index("model.safetensors.index.json", {"a": "model.safetensors"})
    found = Checkpoint("m", {}, files, index)
    assert [f.name for f in found.loaded_files] == ["consolidated.safetensors"]
    own = Index("consolidated.safetensors.index.json", {"a": "absent.safetensors"})
    assert Checkpoint("m", {}, files, own).loaded_files == ()
    other = Index("other.safetensors.index.json", {})
    assert Checkpoint("m", {}, files[1:], other).loaded_files == files[1:]
