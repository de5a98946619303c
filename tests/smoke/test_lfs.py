"""Models whose weights are in Git LFS: fetched from a server on loopback, if there is room."""

from __future__ import annotations

import errno
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from quantgate.checkpoint import lfs_download
from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.vllm.smoke.weights import NoWeights, prepare
from tests.support.build import healthy, write_checkpoint
from tests.support.lfs_server import pointer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lfs_server import FakeLfs

SECONDS = 60.0


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A model with a tokenizer, and with things beside it that vLLM has no use for."""
    config, tensors = healthy("awq")
    folder = write_checkpoint(tmp_path / "whole", config, {"model.safetensors": tensors})
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    (folder / "modeling_evil.py").write_text("raise SystemExit")
    return folder


@pytest.fixture
def checkout(lfs: FakeLfs, whole: Path, tmp_path: Path) -> Path:
    """Its checkout without LFS files: weights and tokenizer are pointers."""
    files = {p.name: p.read_bytes() for p in whole.iterdir()}
    folder = lfs.checkout(tmp_path / "checkout", files)
    (folder / "tokenizer.json").write_bytes(
        lfs.put("tokenizer.json", (whole / "tokenizer.json").read_bytes())
    )
    return folder


def test_pointers_are_fetched(checkout: Path, whole: Path, tmp_path: Path) -> None:
    """vLLM gets a folder with all that it may read; the checkout stays as it was."""
    before = {p.name: p.read_bytes() for p in checkout.iterdir()}
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    prepared = prepare(str(checkout), scratch, lfs=Lfs.AUTO, seconds=SECONDS)

    found = {p.name: p.read_bytes() for p in prepared.folder.iterdir()}
    wanted = {"config.json", "model.safetensors", "tokenizer.json"}
    assert found == {n: (whole / n).read_bytes() for n in wanted}
    assert prepared.folder.is_relative_to(scratch)
    assert prepared.has_tokenizer
    assert {p.name: p.read_bytes() for p in checkout.iterdir()} == before


def test_a_full_disk_is_told(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the machine's trouble, in plain words."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lfs_download.os, "pwrite", full)
    with pytest.raises(NoWeights, match=r"^it cannot be fetched: the disk is full$"):
        prepare(str(checkout), tmp_path, lfs=Lfs.AUTO, seconds=SECONDS)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("config.json", "32.0 MB"),
        ("model.safetensors.index.json", "100.0 MB"),
        ("tokenizer.json", "1.0 GB"),
        ("merges.txt", "1.0 GB"),
    ],
)
def test_pointers_to_documents_of_any_size(
    checkout: Path, lfs: FakeLfs, tmp_path: Path, name: str, limit: str
) -> None:
    """What claims to be larger than such files are is not fetched."""
    (checkout / name).write_bytes(pointer("1" * 64, 5_000_000_000))
    with pytest.raises(NoWeights, match=f"^{name} is larger than {limit}$"):
        prepare(str(checkout), tmp_path, lfs=Lfs.AUTO, seconds=SECONDS)
    assert lfs.seen == []


def test_a_link_to_a_pointer_elsewhere(checkout: Path, lfs: FakeLfs, tmp_path: Path) -> None:
    """A pointer outside of the checkout is not one of its files."""
    (checkout / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    (checkout / "tokenizer.json").symlink_to(tmp_path / "tokenizer.json")
    with pytest.raises(NoWeights, match=r"^tokenizer\.json is a link that leads out of"):
        prepare(str(checkout), tmp_path, lfs=Lfs.AUTO, seconds=SECONDS)
    assert lfs.seen == []


def test_a_model_that_the_disk_does_not_hold(
    checkout: Path, lfs: FakeLfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No object is asked for, and both sizes are told."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(NoWeights, match=r"^it takes .*B, and 1\.0 kB are free on the disk$"):
        prepare(str(checkout), tmp_path, lfs=Lfs.AUTO, seconds=SECONDS)
    assert lfs.seen == []


def test_an_object_that_was_not_pushed(checkout: Path, lfs: FakeLfs, tmp_path: Path) -> None:
    """It is said which, and why it cannot be had."""
    lfs.objects.clear()
    message = "^tokenizer.json is a Git LFS pointer, and its file is not there: whoever committed"
    with pytest.raises(NoWeights, match=message):
        prepare(str(checkout), tmp_path, lfs=Lfs.AUTO, seconds=SECONDS)


def test_without_leave_nothing_is_fetched(checkout: Path, lfs: FakeLfs, tmp_path: Path) -> None:
    """With `--lfs never`, a pointer is a file that is missing."""
    with pytest.raises(NoWeights, match="is a Git LFS pointer, its file was not fetched"):
        prepare(str(checkout), tmp_path, lfs=Lfs.NEVER)
    assert lfs.seen == []
