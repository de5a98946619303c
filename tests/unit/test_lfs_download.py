"""Whole files behind Git LFS pointers, from a real HTTP server on loopback."""

from __future__ import annotations

import errno
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from quantgate.checkpoint import lfs_download, transport
from quantgate.checkpoint.lfs_download import download_pointers
from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.checkpoint.lfs_objects import LfsObjects
from quantgate.checkpoint.local import read_folder
from quantgate.checkpoint.pointer import Pointer
from quantgate.checkpoint.raw import UnreadError
from quantgate.checkpoint.transport import Limits
from tests.support.build import healthy, write_checkpoint
from tests.support.hub_server import Misbehaviour

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lfs_server import FakeLfs

QUICK = Limits(deadline=60, stall=10, tries=3, backoff=0.01)
NAME = "model.safetensors"


@pytest.fixture
def checkout(lfs: FakeLfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder in a checkout whose weights are a pointer to 100,000 bytes and more."""
    monkeypatch.setattr(lfs_download, "PART", 9_999)
    config, tensors = healthy("awq")
    whole = write_checkpoint(tmp_path / "whole", config, {NAME: tensors})
    (whole / NAME).write_bytes((whole / NAME).read_bytes() + random.Random(0).randbytes(99_000))
    return lfs.checkout(tmp_path / "checkout", {p.name: p.read_bytes() for p in whole.iterdir()})


def download(folder: Path, into: Path, limits: Limits = QUICK) -> None:
    """All pointers of the folder."""
    into.mkdir(exist_ok=True)
    pointers = read_folder(folder).pointers
    download_pointers(folder.resolve(), pointers, into, mode=Lfs.AUTO, limits=limits)


def test_a_file_comes_whole(checkout: Path, lfs: FakeLfs, tmp_path: Path) -> None:
    """Its parts are put together in their order, and nothing is asked twice."""
    download(checkout, tmp_path / "into")
    assert (tmp_path / "into" / NAME).read_bytes() == (tmp_path / "whole" / NAME).read_bytes()
    size = (tmp_path / "whole" / NAME).stat().st_size
    ranges = [s.range for s in lfs.requests("storage")]
    assert len(set(ranges)) == len(ranges) == -(-size // 9_999)
    assert len(lfs.batches) == 1


def test_an_address_that_expires_in_between(checkout: Path, lfs: FakeLfs, tmp_path: Path) -> None:
    """One of the parts asks for a new address, and all go on with it."""
    lfs.expired_below = 2
    download(checkout, tmp_path / "into")
    assert (tmp_path / "into" / NAME).read_bytes() == (tmp_path / "whole" / NAME).read_bytes()
    assert len(lfs.batches) == 2


def test_an_address_that_is_never_good(checkout: Path, lfs: FakeLfs, tmp_path: Path) -> None:
    """It is given up, and the file is named."""
    lfs.expired_below = 10**9
    with pytest.raises(UnreadError, match=f"^{NAME} is a Git LFS pointer, and its file may not be"):
        download(checkout, tmp_path / "into")
    assert len(lfs.batches) <= 26


def test_other_content_is_refused(checkout: Path, lfs: FakeLfs, tmp_path: Path) -> None:
    """A file that has the size but not the hash is not what was committed."""
    for _, content in lfs.objects.values():
        content.head = content.head[:-1] + bytes([content.head[-1] ^ 1])
    with pytest.raises(UnreadError, match="came with other content: its hash differs"):
        download(checkout, tmp_path / "into")


@pytest.mark.parametrize(
    ("kind", "words"), [("404", "is not there"), ("short", "broke off"), ("503", "503")]
)
def test_a_part_that_cannot_be_had(
    checkout: Path, lfs: FakeLfs, tmp_path: Path, kind: str, words: str
) -> None:
    """One part in the middle is enough to give the file up."""
    lfs.misbehaviours = [Misbehaviour(kind, NAME, skip=5)]
    with pytest.raises(UnreadError, match=words):
        download(checkout, tmp_path / "into")


def test_a_part_that_fails_once(checkout: Path, lfs: FakeLfs, tmp_path: Path) -> None:
    """It is asked for again."""
    lfs.misbehaviours = [Misbehaviour("503", NAME, times=2, skip=5)]
    download(checkout, tmp_path / "into")
    assert (tmp_path / "into" / NAME).read_bytes() == (tmp_path / "whole" / NAME).read_bytes()


def test_the_time_is_over(checkout: Path, lfs: FakeLfs, tmp_path: Path) -> None:
    """A download that takes too long is given up."""
    lfs.latency = 0.2
    with pytest.raises(UnreadError, match=r"longer than the 0\.3 s that a model may take"):
        download(checkout, tmp_path / "into", replace(QUICK, deadline=0.3, workers=1))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_does_not_wait_for_the_rest(
    checkout: Path,
    lfs: FakeLfs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
) -> None:
    """Parts that are under way when the program is ended are given up."""
    lfs.misbehaviours = [Misbehaviour("drip")]
    parts = []

    def interrupted(tasks: list[object]) -> None:
        parts.extend(tasks)
        while not lfs.sent > 1000:  # of the batch's answer the most
            time.sleep(0.01)
        raise error

    monkeypatch.setattr(lfs_download, "as_completed", interrupted)
    with pytest.raises(error):
        download(checkout, tmp_path / "into")
    assert len(parts) > 5
    assert lfs.sent < 9_999


def test_a_part_that_fails_ends_the_others(checkout: Path, lfs: FakeLfs, tmp_path: Path) -> None:
    """The file is given up at once, though other parts would have come for long."""
    lfs.misbehaviours = [Misbehaviour("404", NAME, times=1, skip=5), Misbehaviour("drip")]
    with pytest.raises(UnreadError, match="is not there"):
        download(checkout, tmp_path / "into", replace(QUICK, workers=6))
    assert lfs.sent < 9_999 * 6


@pytest.mark.parametrize("size", [9_999 * 3, 100_000])
def test_a_server_that_ignores_ranges(
    lfs: FakeLfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A file of several parts comes in one piece from a server that knows no parts."""
    monkeypatch.setattr(lfs_download, "PART", 9_999)
    monkeypatch.setattr(transport, "MAX_SKIP", 1_000)
    content = random.Random(1).randbytes(size)
    folder = lfs.checkout(tmp_path / "checkout", {"config.json": b"{}", NAME: content})
    lfs.misbehaviours = [Misbehaviour("ignore-range")]
    download(folder, tmp_path / "into")
    assert (tmp_path / "into" / NAME).read_bytes() == content
    assert [s.range for s in lfs.requests("storage")].count("") == 1


def test_a_whole_file_behind_an_address_that_expires(
    lfs: FakeLfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One piece or many: the address is asked for anew."""
    monkeypatch.setattr(lfs_download, "PART", 9_999)
    monkeypatch.setattr(transport, "MAX_SKIP", 1_000)
    content = random.Random(1).randbytes(50_000)
    folder = lfs.checkout(tmp_path / "checkout", {"config.json": b"{}", NAME: content})
    lfs.misbehaviours = [Misbehaviour("ignore-range")]
    real = LfsObjects.save

    def late(self: LfsObjects, *more: Any) -> None:
        lfs.expired_below = len(lfs.batches) + 1
        real(self, *more)

    monkeypatch.setattr(LfsObjects, "save", late)
    download(folder, tmp_path / "into")
    assert (tmp_path / "into" / NAME).read_bytes() == content
    assert len(lfs.batches) == 2


def test_a_full_disk(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the disk is not one of the server, and is handed on as it is."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lfs_download.os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        download(checkout, tmp_path / "into")


def test_an_empty_file(lfs: FakeLfs, tmp_path: Path) -> None:
    """Of nothing there are no parts."""
    folder = lfs.checkout(tmp_path / "checkout", {"config.json": b"{}", NAME: b"x"})
    lfs.put("none", b"")
    oid = next(o for o, (name, _) in lfs.objects.items() if name == "none")
    (tmp_path / "into").mkdir()
    pointers = {"none": Pointer(oid, 0)}
    download_pointers(folder, pointers, tmp_path / "into", mode=Lfs.AUTO, limits=QUICK)
    assert (tmp_path / "into/none").read_bytes() == b""


def test_a_server_that_may_not_be_asked(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without permission nothing is asked, and the file is named."""
    monkeypatch.delenv("GITHUB_SERVER_URL")
    with pytest.raises(UnreadError, match=f"^{NAME} is a Git LFS pointer, .* is not asked, unless"):
        download(checkout, tmp_path / "into")
