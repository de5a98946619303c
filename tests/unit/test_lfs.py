"""Git LFS pointers in a checkout: looked up at a real HTTP server on loopback."""

from __future__ import annotations

import base64
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantgate.checkpoint import ranges
from quantgate.checkpoint.cache import Cache
from quantgate.checkpoint.lfs import fetch_pointers
from quantgate.checkpoint.lfs_objects import MAX_BATCH
from quantgate.checkpoint.local import read_folder
from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.raw import RawCheckpoint, assemble
from quantgate.checkpoint.transport import Limits
from quantgate.cli import main
from quantgate.findings import Verdict
from quantgate.runner import check_models
from tests.support.build import healthy, write_checkpoint
from tests.support.hub_models import good_model, weight_content
from tests.support.hub_server import Content, Misbehaviour
from tests.support.lfs_server import MEDIA_TYPE, FakeLfs, pointer, write_config

QUICK = Limits(deadline=60, stall=10, tries=3, backoff=0.01)
IMPATIENT = replace(QUICK, stall=0.2)
FIRST = "model-00001-of-00002.safetensors"
BASIC = "Basic " + base64.b64encode(b"x-access-token:secret").decode()


def fetch(folder: Path, limits: Limits = QUICK, cache: Cache | None = None) -> RawCheckpoint:
    """Read with little patience, and without a cache."""
    return fetch_pointers(read_folder(folder), limits=limits, cache=cache or Cache(None))


def defects(raw: RawCheckpoint) -> dict[str, Defect]:
    """File → why its header is missing."""
    return {f.name: f.header for f in raw.files if isinstance(f.header, Defect)}


def test_pointers_give_what_the_files_give(lfs: FakeLfs, tmp_path: Path) -> None:
    """The same model behind pointers and on disk makes the same checkpoint, and passes."""
    config, tensors = healthy("awq")
    whole = write_checkpoint(tmp_path / "whole", config, {"model.safetensors": tensors})
    files = {p.name: p.read_bytes() for p in whole.iterdir()}
    folder = lfs.checkout(tmp_path / "checkout", files)

    here, there = assemble(read_folder(whole)), assemble(fetch(folder))

    assert there.tensors == here.tensors
    assert there.files == here.files
    assert there.requests == 2
    model = check_models([str(folder)]).models[0]
    assert (model.verdict, model.findings) == (Verdict.PASS, ())


def test_one_batch_and_one_range_per_file(lfs: FakeLfs, tmp_path: Path) -> None:
    """The batch asks for basic downloads with LFS media types; headers come by one range each."""
    raw = fetch(lfs.checkout(tmp_path, good_model()))

    (batch,) = lfs.batches
    assert batch.headers["accept"] == batch.headers["content-type"] == MEDIA_TYPE
    assert (batch.body["operation"], batch.body["transfers"]) == ("download", ["basic"])
    assert len(batch.objects) == 2
    assert len(lfs.requests("storage")) == 2
    assert all(s.range.startswith("bytes=0-") for s in lfs.requests("storage"))
    assert raw.requests == 3
    assert not defects(raw)


def test_large_models_take_several_batches(lfs: FakeLfs, tmp_path: Path) -> None:
    """No batch asks for more objects than servers take."""
    files = {
        f"m-{i}.safetensors": weight_content({f"t{i}": "F32[1]"}) for i in range(MAX_BATCH + 1)
    }
    folder = lfs.checkout(tmp_path, {"config.json": b"{}", **files})

    fetch(folder)

    assert [len(b.objects) for b in lfs.batches] == [MAX_BATCH, 1]


def test_the_token_goes_to_its_host_only(
    lfs: FakeLfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch carries the token; the storage on another host gets the signed headers alone."""
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    lfs.wants_token = BASIC

    raw = fetch(lfs.checkout(tmp_path, good_model()))

    assert not defects(raw)
    assert {b.headers["authorization"] for b in lfs.batches} == {BASIC}
    assert {s.token for s in lfs.requests("storage")} == {""}


def test_files_on_the_git_server_get_the_token(
    lfs: FakeLfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address on the server's own host without credentials is asked with the token."""
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    lfs.wants_token, lfs.here = BASIC, True

    assert not defects(fetch(lfs.checkout(tmp_path, good_model())))


@pytest.mark.parametrize(("token", "words"), [("", "without a token"), ("wrong", "may not read")])
def test_a_refused_batch_is_unverified(
    lfs: FakeLfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str, words: str
) -> None:
    """Without access, names and sizes are known, one finding says why, and the exit code is 3."""
    monkeypatch.setenv("GITHUB_TOKEN", token)
    lfs.wants_token = BASIC
    files = good_model()
    folder = lfs.checkout(tmp_path, files)

    model = check_models([str(folder)]).models[0]

    assert model.verdict is Verdict.UNVERIFIED
    (finding,) = [f for f in model.findings if f.rule == "QG209"]
    assert words in finding.found
    assert "Credentials needed" in finding.found
    sizes = {n: c.size for n, c in files.items() if isinstance(c, Content)}
    assert {f.name: f.size for f in fetch(folder).files} == sizes
    assert main(["check", str(folder)]) == 3


def test_no_request_with_never(lfs: FakeLfs, tmp_path: Path) -> None:
    """A user who says never is asked about no server, and gets no pass."""
    folder = lfs.checkout(tmp_path, good_model())
    assert main(["check", "--lfs", "never", str(folder)]) == 3
    assert main(["check", str(folder)]) == 0
    assert len(lfs.batches) == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"code": 404, "message": "Object does not exist"}, "has not pushed"),
        ({"code": 403, "message": "no"}, "may not be read"),
        ({"code": 410, "message": "gone"}, "was removed"),
        ({"code": 422, "message": "bad oid"}, "is not accepted"),
        ({"code": 429, "message": "slow"}, "too many requests"),
        ("x", "cannot be had"),
        ({"code": "404", "message": ["\x1b"]}, "cannot be had"),
    ],
)
def test_errors_of_one_object(lfs: FakeLfs, tmp_path: Path, error: object, words: str) -> None:
    """What the server says of one object holds for its file only."""
    folder = lfs.checkout(tmp_path, good_model())
    first = read_folder(folder).pointers[FIRST].oid

    def change(entry: dict[str, Any]) -> None:
        if entry["oid"] == first:
            del entry["actions"]
            entry["error"] = error

    lfs.change = change
    found = defects(fetch(folder))
    assert list(found) == [FIRST]
    assert found[FIRST].kind is DefectKind.NOT_ANSWERED
    assert words in found[FIRST].message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda e: e.update(size=e["size"] + 1), "in the pointer"),
        (lambda e: e.update(oid="0" * 64), "left out"),
        (lambda e: e.update(oid=["x"]), "not that of an LFS server"),
        (lambda e: e.update(actions={}), "cannot be downloaded"),
        (lambda e: e.update(actions=5), "cannot be downloaded"),
        (lambda e: e["actions"]["download"].update(href="file:///etc/passwd"), "no safe address"),
        (lambda e: e["actions"]["download"].update(href=3), "no safe address"),
        (lambda e: e["actions"]["download"].update(href="http://[::1"), "no safe address"),
        (lambda e: e["actions"]["download"].update(href="http://x/" + "a" * 70_000), "no safe"),
        (lambda e: e["actions"]["download"].update(href="http://x/\u4e2d"), "no safe address"),
        (lambda e: e["actions"]["download"].update(href="http://x/\n"), "no safe address"),
        (lambda e: e["actions"]["download"].update(href="http://[v1.a]/x"), "not be fetched"),
        (lambda e: e["actions"]["download"].update(header=7), "cannot be downloaded"),
        (lambda e: e["actions"]["download"].update(header={"X": "\u4e2d"}), "named headers that"),
        (lambda e: e["actions"]["download"].update(header={"\u4e2d": "x"}), "named headers that"),
        (
            lambda e: e["actions"]["download"].update(header={"X": "a\r\nB: c"}),
            "named headers that",
        ),
        (lambda e: e["actions"]["download"].update(header={"X Y": "a"}), "named headers that"),
        (lambda e: e["actions"]["download"].update(header={"X": "a" * 70_000}), "named headers"),
        (
            lambda e: e["actions"]["download"].update(
                header=dict.fromkeys(map(str, range(999)), "")
            ),
            "named headers that",
        ),
        (lambda e: e.update(size="\ud800\x1b"), r"'\ud800\x1b'"),
    ],
)
def test_answers_that_make_no_sense(lfs: FakeLfs, tmp_path: Path, change: Any, words: str) -> None:
    """Other sizes, other objects and addresses that are none are told, and nothing is read."""
    lfs.change = change
    found = defects(fetch(lfs.checkout(tmp_path, good_model())))
    assert len(found) == 2
    assert all(words in d.message for d in found.values())
    assert not lfs.requests("storage")


def test_a_hostile_server_does_not_touch_other_models(lfs: FakeLfs, tmp_path: Path) -> None:
    """Where one model's files cannot even be asked for, another one's report stays as it is."""
    config, tensors = healthy("awq")
    whole = write_checkpoint(tmp_path / "whole", config, {"model.safetensors": tensors})
    folder = lfs.checkout(tmp_path / "checkout", good_model())
    lfs.change = lambda e: e["actions"]["download"].update(href="http://[v1.a]/x")
    report = check_models([str(folder), str(whole)])
    assert [m.verdict for m in report.models] == [Verdict.UNVERIFIED, Verdict.PASS]


@pytest.mark.usefixtures("clean")
def test_a_server_that_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a repository names as its server and is no address that can be asked is told."""
    monkeypatch.setenv("GITHUB_SERVER_URL", "http://127.0.0.1:9")
    write_config(tmp_path, "http://127.0.0.1:9/o/r")
    url = "http://127.0.0.1:9/" + "a" * 70_000
    (tmp_path / ".lfsconfig").write_text(f"[lfs]\n\turl = {url}\n")
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "model.safetensors").write_bytes(pointer("3" * 64, 4800))
    found = defects(fetch(tmp_path))["model.safetensors"]
    words = "was not looked up at 127.0.0.1:9, as the answer could not be fetched: InvalidURL"
    assert words in found.message


def test_an_interrupt_does_not_wait_for_the_rest(
    lfs: FakeLfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headers that are under way when the gate is ended are given up."""
    folder = lfs.checkout(tmp_path, good_model())
    lfs.misbehaviours = [Misbehaviour("drip")]

    def interrupted(_: object) -> None:
        while not lfs.sent:
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(ranges, "as_completed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(folder)
    assert lfs.sent < 1000


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("wrong-total", "in the listing"),
        ("wrong-range", "Content-Range"),
        ("short", "broke off"),
        ("drop", "could not be fetched"),
        ("404", "is not there"),
        ("429", "too many requests"),
        ("503", "503"),
    ],
)
def test_a_storage_that_misbehaves(lfs: FakeLfs, tmp_path: Path, kind: str, words: str) -> None:
    """Whatever the storage does wrong with one file, the gate says so and does not pass."""
    folder = lfs.checkout(tmp_path, good_model())
    lfs.misbehaviours = [Misbehaviour(kind, FIRST)]
    found = defects(fetch(folder))
    assert words in found[FIRST].message
    assert found[FIRST].kind is DefectKind.NOT_ANSWERED


def test_a_storage_that_stalls(lfs: FakeLfs, tmp_path: Path) -> None:
    """A stalled file is given up; with the deadline over, all are."""
    folder = lfs.checkout(tmp_path, good_model())
    lfs.misbehaviours = [Misbehaviour("stall", FIRST)]
    assert "stalled" in defects(fetch(folder, replace(IMPATIENT, tries=1)))[FIRST].message


def test_a_range_that_is_ignored(lfs: FakeLfs, tmp_path: Path) -> None:
    """A whole file in place of its head is cut off after the header."""
    folder = lfs.checkout(tmp_path, good_model())
    lfs.misbehaviours = [Misbehaviour("ignore-range")]
    assert not defects(fetch(folder))


@pytest.mark.parametrize("kind", ["stall", "429", "500", "garbage", "html", "drop"])
def test_a_batch_that_misbehaves(lfs: FakeLfs, tmp_path: Path, kind: str) -> None:
    """Without addresses nothing is read, and every file says why."""
    folder = lfs.checkout(tmp_path, good_model())
    lfs.misbehaviours = [Misbehaviour(kind, "batch")]
    found = defects(fetch(folder, replace(IMPATIENT, tries=2)))
    assert len(found) == 2
    assert all(d.kind is DefectKind.NOT_ANSWERED for d in found.values())
    assert all("Git LFS pointer" in d.message for d in found.values())


def test_a_batch_is_asked_again(lfs: FakeLfs, tmp_path: Path) -> None:
    """A server that asks to wait is asked again when it says."""
    folder = lfs.checkout(tmp_path, good_model())
    lfs.misbehaviours = [Misbehaviour("429", "batch", times=1, headers={"retry-after": "0"})]
    assert not defects(fetch(folder))
    assert len(lfs.batches) == 2


def test_an_expired_address_is_asked_for_anew(lfs: FakeLfs, tmp_path: Path) -> None:
    """A signed address that has expired is renewed once, and not for ever."""
    folder = lfs.checkout(tmp_path, good_model())
    lfs.expired_below = 2
    assert not defects(fetch(folder))
    lfs.expired_below = 10**9
    lfs.batches.clear()
    assert len(defects(fetch(folder))) == 2
    assert len(lfs.batches) == 3


def test_a_second_run_asks_for_nothing(lfs: FakeLfs, tmp_path: Path) -> None:
    """Headers and documents are kept by oid."""
    files = good_model()
    index = files["model.safetensors.index.json"]
    assert isinstance(index, bytes)
    folder = lfs.checkout(tmp_path / "c", files)
    name = "model.safetensors.index.json"
    (folder / name).write_bytes(lfs.put(name, index))
    cache = Cache(tmp_path / "kept")

    first = fetch(folder, cache=cache)
    lfs.seen.clear()
    second = fetch(folder, cache=cache)

    assert first.index is not None
    assert first.index.content == index
    assert lfs.seen == []
    assert (second.files, second.index, second.requests) == (first.files, first.index, 0)


def test_a_document_with_another_hash(lfs: FakeLfs, tmp_path: Path) -> None:
    """A config that is not what its pointer says is not believed."""
    folder = lfs.checkout(tmp_path, good_model())
    lfs.objects["1" * 64] = ("config.json", Content(b"{}"))
    (folder / "config.json").write_bytes(pointer("1" * 64, 2))
    found = next(d for d in fetch(folder).configs if d.name == "config.json").content
    assert isinstance(found, Defect)
    assert "hash" in found.message


def test_broken_pointers(lfs: FakeLfs, tmp_path: Path) -> None:
    """A pointer without an oid asks for nothing; a config that claims too much is not fetched."""
    folder = lfs.checkout(tmp_path, good_model())
    (folder / FIRST).write_bytes(pointer("xyz", 5))
    (folder / "config.json").write_bytes(pointer("2" * 64, 10**12))
    raw = fetch(folder)
    assert "no oid" in defects(raw)[FIRST].message
    config = next(d for d in raw.configs if d.name == "config.json").content
    assert isinstance(config, Defect)
    assert config.kind is DefectKind.TOO_LARGE


def test_a_snapshot_of_pointers_in_links(lfs: FakeLfs, tmp_path: Path) -> None:
    """A pointer behind a link counts within the folder, and one that leads out of it does not."""
    folder = lfs.checkout(tmp_path / "c", good_model())
    (tmp_path / "outside").write_bytes((folder / FIRST).read_bytes())
    (folder / FIRST).rename(folder / "kept.bin")
    (folder / FIRST).symlink_to("kept.bin")
    assert not defects(fetch(folder))
    (folder / FIRST).unlink()
    (folder / FIRST).symlink_to(tmp_path / "outside")
    lfs.batches.clear()
    assert defects(fetch(folder))[FIRST].kind is DefectKind.OUTSIDE
    assert len(lfs.batches[0].objects) == 1


@pytest.mark.usefixtures("clean")
def test_no_remote_at_all(tmp_path: Path) -> None:
    """A folder with pointers and no checkout around stays unverified, and says so."""
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.json").write_bytes(b"{}")
    (folder / "model.safetensors").write_bytes(pointer("3" * 64, 4800))
    raw = fetch(folder)
    found = defects(raw)["model.safetensors"]
    assert found.kind is DefectKind.NOT_FETCHED
    assert "no checkout with a remote" in found.message
    assert raw.files[0].size == 4800


def test_scalars_behind_pointers(lfs: FakeLfs, tmp_path: Path) -> None:
    """Values of lone scales are read by range as well."""
    config, tensors = healthy("fp8-static")
    whole = write_checkpoint(tmp_path / "whole", config, {"model.safetensors": tensors})
    files = {p.name: p.read_bytes() for p in whole.iterdir()}
    folder = lfs.checkout(tmp_path / "c", files)
    raw = fetch_pointers(
        read_folder(folder, scalars=True), scalars=True, limits=QUICK, cache=Cache(None)
    )
    assert raw.scalars
    assert raw.scalars == read_folder(whole, scalars=True).scalars
