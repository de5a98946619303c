"""Models at addresses: fsspec's memory file system, and a plain web server on loopback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote, urlsplit

import fsspec
import pytest
from huggingface_hub.utils import close_session

from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.raw import RawCheckpoint, SourceError, assemble
from quantgate.checkpoint.remote import read_url
from quantgate.checkpoint.sources import open_checkpoint
from quantgate.checkpoint.transport import Limits
from quantgate.cli import main
from quantgate.runner import check_models
from tests.support.build import healthy, write_checkpoint
from tests.support.hub_models import good_model
from tests.support.hub_server import Content, FakeHub, HubHandler, Misbehaviour, Seen

QUICK = Limits(deadline=60, stall=10, tries=3, backoff=0.01)
FIRST = "model-00001-of-00002.safetensors"


class Web(FakeHub):
    """A web server with one folder; it tells nothing but files."""

    def handler(self) -> type[BaseHTTPRequestHandler]:
        return _Handler


class _Handler(HubHandler):
    def _answer(self) -> None:
        web = self.server.hub
        path = unquote(urlsplit(self.path).path)
        token = self.headers.get("authorization", "")
        with web.lock:
            web.seen.append(Seen("web", self.command, path, self.headers.get("range", ""), token))
        folder, _, name = path.rpartition("/")
        repo = web.repos.get(folder)
        if self.command == "HEAD" and self._misbehaved(f"head:{name}"):
            return
        if repo is None or name not in repo.files:
            self._send(404, b"", {})
            return
        self._file(name, repo.files[name], {})


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A server with a good model, while there are tokens for others."""
    for variable in ("HF_TOKEN", "GITHUB_TOKEN"):
        monkeypatch.setenv(variable, "secret")
    server = Web()
    with server.running():
        server.add("/models/good", good_model())
        yield server
        close_session()


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    """An empty file system in memory."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def defects(raw: RawCheckpoint) -> dict[str, Defect]:
    """File → why its header is missing."""
    return {f.name: f.header for f in raw.files if isinstance(f.header, Defect)}


def put(system: fsspec.AbstractFileSystem, folder: Path, place: str) -> None:
    """Copy a folder into the file system."""
    for path in folder.iterdir():
        system.pipe_file(f"{place}/{path.name}", path.read_bytes())


def test_a_store_gives_what_a_folder_gives(
    memory: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    """The same files make the same checkpoint, also the values of scales, and the gate passes."""
    config, tensors = healthy("fp8-static")
    folder = write_checkpoint(tmp_path / "m", config, {"model.safetensors": tensors})
    put(memory, folder, "/bucket/m")
    memory.pipe_file("/bucket/m/sub/other.safetensors", b"")

    here = open_checkpoint(str(folder), scalars=True)
    raw = read_url("memory://bucket/m/", scalars=True)
    there = assemble(raw)

    assert (there.files, there.configs, there.scalars) == (here.files, here.configs, here.scalars)
    assert there.bytes_read > 0
    assert main(["check", "memory://bucket/m"]) == 0


def test_a_store_without_a_model(memory: fsspec.AbstractFileSystem) -> None:
    """What is not there, and what is no model, is said in one sentence, with exit code 3."""
    memory.pipe_file("/bucket/x/readme.txt", b"")
    with pytest.raises(SourceError, match="There is no 'memory://bucket/nothing'"):
        read_url("memory://bucket/nothing")
    with pytest.raises(SourceError, match="is no model"):
        read_url("memory://bucket/x")
    assert main(["check", "memory://bucket/x"]) == 3


def test_a_store_that_fails(
    memory: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short answers and a library's own exceptions become unread files, never a pass."""
    config, tensors = healthy("gptq")
    put(memory, write_checkpoint(tmp_path / "m", config, {"model.safetensors": tensors}), "/b/m")
    system = type(memory)
    plain = system.cat_file

    def short(self: object, path: str, start: int, end: int) -> bytes:
        return bytes(plain(self, path, start, end))[: 5 if path.endswith("tensors") else None]

    monkeypatch.setattr(system, "cat_file", short)
    assert "incomplete" in defects(read_url("memory://b/m"))["model.safetensors"].message

    def broken(self: object, path: str, start: int, end: int) -> bytes:
        raise RuntimeError("no\ncredentials")

    monkeypatch.setattr(system, "cat_file", broken)
    raw = read_url("memory://b/m")
    assert "RuntimeError: no credentials" in defects(raw)["model.safetensors"].message
    assert main(["check", "memory://b/m"]) == 3


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lacks the library of a store reads which one to install."""
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(SourceError, match="pip install s3fs"):
        read_url("s3://bucket/m")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("file:///etc", "none of hf, https, s3"),
        ("local:///etc", "none of"),
        ("simplecache::s3://b/m", "none of"),
        ("s3://b::file:///etc", "none of"),
        ("https://user:hunter2@h/m", "has a user"),
        ("https://h/m?token=hunter2", "a query"),
        ("https://", "no address"),
        ("https://h:x/m", "no address"),
    ],
)
def test_addresses_that_are_not_read(
    source: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Local files, chains and addresses with more than a folder in them are refused."""
    assert main(["check", source]) == 3
    out = capsys.readouterr().out
    assert words in out


def test_addresses_need_a_user() -> None:
    """Nothing but the command line reads an address: a manifest could name one of the network."""
    for source in ("https://10.0.0.1/m", "s3://bucket/m"):
        with pytest.raises(SourceError, match="quantgate pack"):
            open_checkpoint(source)
        assert check_models([source]).models[0].verdict == "unverified"


def test_a_web_folder(web: Web, tmp_path: Path) -> None:
    """The index gives the names; headers come by range, and no token goes along."""
    address = f"{web.address}/models/good"
    raw = read_url(address, limits=QUICK)
    assert len(raw.files) == 2
    assert not defects(raw)
    gets = [s for s in web.seen if s.method == "GET" and s.path.endswith(".safetensors")]
    assert len(gets) == 2
    assert all(s.range for s in gets)
    assert {s.token for s in web.seen} == {""}
    assert raw.requests == len(web.seen)
    assert main(["check", f"{address}/"]) == 0
    archive = str(tmp_path / "m.json.gz")
    assert main(["pack", address, "-o", archive]) == 0
    assert main(["check", archive]) == 0


def test_a_web_folder_of_one_file(web: Web) -> None:
    """Without an index, model.safetensors is tried."""
    files = good_model(1)
    one = next(c for n, c in files.items() if n.endswith(".safetensors"))
    web.add("/one", {"config.json": files["config.json"], "model.safetensors": one})
    raw = read_url(f"{web.address}/one", limits=QUICK)
    assert [f.name for f in raw.files] == ["model.safetensors"]
    assert not defects(raw)


def test_a_web_folder_with_a_missing_file(web: Web) -> None:
    """A file that the index names and the server lacks is missing; a hidden one is unread."""
    del web.repos["/models/good"].files[FIRST]
    raw = read_url(f"{web.address}/models/good", limits=QUICK)
    assert len(raw.files) == 1
    web.misbehaviours = [Misbehaviour("403", f"head:{FIRST}")]
    raw = read_url(f"{web.address}/models/good", limits=QUICK)
    assert defects(raw)[FIRST].kind is DefectKind.NOT_ANSWERED


def test_a_web_folder_that_is_none(web: Web) -> None:
    """No folder, web pages for every name, and a server that only fails."""
    with pytest.raises(SourceError, match="is not there"):
        read_url(f"{web.address}/nothing", limits=QUICK)
    web.misbehaviours = [Misbehaviour("html", "head:.*")]
    with pytest.raises(SourceError, match="web page"):
        read_url(f"{web.address}/models/good", limits=QUICK)
    web.misbehaviours = [Misbehaviour("500", "head:.*")]
    with pytest.raises(SourceError, match="500"):
        read_url(f"{web.address}/models/good", limits=replace(QUICK, tries=1))


@pytest.mark.parametrize("kind", ["wrong-range", "wrong-total", "drop", "404", "503"])
def test_a_web_server_that_misbehaves(web: Web, kind: str) -> None:
    """A file that did not come as asked for is unread."""
    web.misbehaviours = [Misbehaviour(kind, FIRST)]
    web.misbehaviours[0].skip = 1  # the HEAD
    raw = read_url(f"{web.address}/models/good", limits=QUICK)
    assert list(defects(raw)) == [FIRST]


def test_names_of_an_index_stay_in_the_folder(web: Web) -> None:
    """An index that names a path or an address makes no request for it."""
    index = b'{"weight_map": {"a": "../x.safetensors", "b": "http://h/y.safetensors"}}'
    web.add("/m", {"config.json": b"{}", "model.safetensors.index.json": Content(index)})
    read_url(f"{web.address}/m", limits=QUICK)
    assert not [s for s in web.seen if "x.safe" in s.path or "y.safe" in s.path]
