"""What lies in a folder and is no plain file, or one that the system does not give."""

from __future__ import annotations

import os
from pathlib import Path

from quantgate.checkpoint import DefectKind, open_checkpoint
from quantgate.checkpoint import local as local_module
from tests.support.folders import file_of, kind_of, model, weights


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    """A link that leaves the folder is a defect, also when its target does not exist."""
    secret = model(tmp_path / "secret", secret__safetensors=weights("s"), config__json={"k": 1})
    folder = model(tmp_path / "m", good__safetensors=weights("g"))
    (folder / "a.safetensors").symlink_to(secret / "secret.safetensors")
    (folder / "b.safetensors").symlink_to("../secret/none.safetensors")
    (folder / "config.json").symlink_to(secret / "config.json")
    (folder / "inside.safetensors").symlink_to("good.safetensors")
    found = open_checkpoint(str(folder))
    assert kind_of(found, "a.safetensors") is DefectKind.OUTSIDE
    assert kind_of(found, "b.safetensors") is DefectKind.OUTSIDE
    assert found.configs["config.json"].kind is DefectKind.OUTSIDE
    assert found.configs["config.json"].value is None
    assert file_of(found, "inside.safetensors").header is not None
    assert set(found.tensors) == {"g"}


def test_dangling_and_circular_links(tmp_path):
    """Links to nothing and to themselves are unreadable."""
    folder = model(tmp_path, config__json={})
    (folder / "a.safetensors").symlink_to("none.safetensors")
    (folder / "b.safetensors").symlink_to("b.safetensors")
    (folder / "other").symlink_to("other")
    found = open_checkpoint(str(folder))
    assert kind_of(found, "a.safetensors") is DefectKind.UNREADABLE
    assert kind_of(found, "b.safetensors") is DefectKind.UNREADABLE
    assert found.other_files == ("other",)


def hub_cache(root: Path) -> tuple[Path, Path]:
    """The snapshot and blobs folders of a Hub cache, the snapshot holding links."""
    blobs = model(root / "models--a--b" / "blobs", x1=weights("t"), x2=b'{"k": 1}')
    snapshot = root / "models--a--b" / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to("../../blobs/x1")
    (snapshot / "config.json").symlink_to("../../blobs/x2")
    return snapshot, blobs


def test_hub_cache(tmp_path):
    """A snapshot of the Hub cache is read through its links, also by a link to it."""
    snapshot, _ = hub_cache(tmp_path)
    (tmp_path / "link").symlink_to(snapshot)
    for folder in (snapshot, tmp_path / "link"):
        found = open_checkpoint(str(folder))
        assert found.config == {"k": 1}
        assert set(found.tensors) == {"t"}


def test_blobs_that_are_a_link_lead_nowhere(tmp_path):
    """The exception for the Hub cache cannot be used to leave it."""
    snapshot, blobs = hub_cache(tmp_path / "cache")
    blobs.rename(tmp_path / "elsewhere")
    blobs.symlink_to(tmp_path / "elsewhere")
    found = open_checkpoint(str(snapshot))
    assert kind_of(found, "model.safetensors") is DefectKind.OUTSIDE
    assert found.config == {}


def test_pipes_devices_and_folders_are_not_read(tmp_path):
    """What is no regular file is a defect, and a FIFO does not make the gate wait."""
    os.mkfifo(tmp_path / "fifo.safetensors")
    os.mkfifo(tmp_path / "config.json")
    (tmp_path / "folder.safetensors").mkdir()
    found = open_checkpoint(str(tmp_path))
    assert kind_of(found, "fifo.safetensors") is DefectKind.UNREADABLE
    assert kind_of(found, "folder.safetensors") is DefectKind.UNREADABLE
    assert found.configs["config.json"].kind is DefectKind.UNREADABLE


def test_a_fifo_that_takes_a_files_place(tmp_path, monkeypatch):
    """A file exchanged for a FIFO between look and open neither blocks nor is read."""
    os.mkfifo(tmp_path / "a.safetensors")
    answers = iter([True, False])
    monkeypatch.setattr(local_module.stat, "S_ISREG", lambda _mode: next(answers))
    assert kind_of(open_checkpoint(str(tmp_path)), "a.safetensors") is DefectKind.UNREADABLE


def test_permission_denied(tmp_path, monkeypatch):
    """A file that the system refuses is unreadable, with the system's reason."""
    model(tmp_path, config__json={}, model__safetensors=weights("a"))

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(local_module.os, "open", refuse)
    found = open_checkpoint(str(tmp_path))
    assert kind_of(found, "model.safetensors") is DefectKind.UNREADABLE
    assert "Permission denied" in file_of(found, "model.safetensors").defects[0].message
    assert found.configs["config.json"].error == "cannot be read: Permission denied"


def test_a_disk_that_fails_while_reading(tmp_path, monkeypatch):
    """An error in the middle of a read is a defect too."""
    model(tmp_path, config__json={}, model__safetensors=weights("a"))

    class Failing:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.stream.close()

        def fileno(self):
            return self.stream.fileno()

        def read(self, _):
            raise OSError(5, "Input/output error")

    real = os.fdopen
    monkeypatch.setattr(local_module.os, "fdopen", lambda *a: Failing(real(*a)))
    found = open_checkpoint(str(tmp_path))
    assert kind_of(found, "model.safetensors") is DefectKind.UNREADABLE
    assert found.configs["config.json"].kind is DefectKind.UNREADABLE
