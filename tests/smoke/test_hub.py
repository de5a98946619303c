"""Models on the Hub: fetched at one commit, if there is room, and removed again."""

from __future__ import annotations

import errno
import json
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING

import huggingface_hub
import pytest
from huggingface_hub import close_session, constants

from quantgate.vllm.smoke.weights import NoWeights, prepare
from tests.support.hub_models import good_model
from tests.support.hub_server import Content, FakeHub, Misbehaviour

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ID = "acme/model"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A Hub with one model, and with files beside it that nobody asked for."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    monkeypatch.setenv("QUANTGATE_CACHE", str(tmp_path / "cache"))
    server = FakeHub()
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    files = {
        **good_model(),
        "modeling_evil.py": b"raise SystemExit",
        "pytorch_model.bin": b"\x80",
        "tokenizer.json": b"{}",
    }
    with server.running():
        server.add(ID, files)
        yield server
        close_session()


def test_a_model_is_fetched_at_its_commit(hub: FakeHub, tmp_path: Path) -> None:
    """Configs, weights and tokenizer, whole; neither code nor pickles."""
    prepared = prepare(ID, tmp_path)
    found = {p.name: p.stat().st_size for p in prepared.folder.iterdir() if p.is_file()}
    files = hub.repos[ID].files
    wanted = {n for n in files if n.endswith((".json", ".safetensors"))}
    assert found == {n: files[n].size for n in wanted}
    assert prepared.has_tokenizer
    assert json.loads((prepared.folder / "config.json").read_text())["model_type"] == "llama"
    fetched = [s.path for s in hub.requests(name="resolve") if s.path.startswith(f"/{ID}")]
    assert {p.split("/")[4] for p in fetched} == {hub.repos[ID].commit}


def test_a_model_that_the_disk_does_not_hold(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is fetched, and both sizes are told."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(NoWeights, match=r"it takes 1\.2 MB, and 1\.0 kB are free on the disk"):
        prepare(ID, tmp_path)
    assert list(tmp_path.glob("model/*")) == []


def test_a_tokenizer_of_any_size(hub: FakeHub, tmp_path: Path) -> None:
    """What claims to be larger than such files are is not fetched."""
    hub.repos[ID].files["tokenizer.json"] = Content(b"{}", 400 * 10**9)
    with pytest.raises(NoWeights, match=r"^tokenizer\.json is larger than 1\.0 GB$"):
        prepare(ID, tmp_path)
    assert list(tmp_path.glob("model/*")) == []


def test_a_hub_that_fails_halfway(hub: FakeHub, tmp_path: Path) -> None:
    """A file that is gone when it is fetched says nothing about the model."""
    hub.misbehaviours.append(Misbehaviour("404", name="tokenizer.json"))
    with pytest.raises(NoWeights, match="it cannot be fetched: "):
        prepare(ID, tmp_path)


def test_a_disk_that_fills_up(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may need the same disk: it is told in plain words when it is full after all."""

    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    with pytest.raises(NoWeights, match=r"^it cannot be fetched: the disk is full$"):
        prepare(ID, tmp_path)
