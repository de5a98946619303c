"""Sources that are none: the message says what is there instead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quantgate.checkpoint import SourceError, open_checkpoint
from tests.support.folders import model, weights


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "There is no ''."),
        ("nowhere", "There is no 'nowhere'."),
        ("./nowhere/at/all", "There is no './nowhere/at/all'."),
        ("a\0b", "'a\\x00b'"),
        ("x" * 5000, "cannot be read: File name too long"),
    ],
)
def test_no_such_source(tmp_path, monkeypatch, source, message):
    """The message names the source and says what it might have been."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError) as error:
        open_checkpoint(source)
    assert message in str(error.value)


def test_wrong_kinds_of_source(tmp_path):
    """An empty folder, a file that is no archive and a pipe are told apart."""
    model(tmp_path / "empty", README__md="")
    model(tmp_path, model__safetensors=weights("a"))
    os.mkfifo(tmp_path / "x.json.gz")
    for name, message in (
        ("empty", "neither config.json nor"),
        ("model.safetensors", "neither a model folder nor a header archive"),
        ("x.json.gz", "neither a model folder nor a header archive"),
    ):
        with pytest.raises(SourceError, match=message):
            open_checkpoint(str(tmp_path / name))


def test_a_folder_that_cannot_be_listed(tmp_path, monkeypatch):
    """A folder without permission to list it is a source error with the reason."""

    def refuse(_self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(SourceError, match="Permission denied"):
        open_checkpoint(str(tmp_path))
