"""Reading a model from a Hub: real HTTP on loopback, through the real client."""

from __future__ import annotations

import json
import re
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from quantgate.checkpoint.cache import Cache
from quantgate.checkpoint.hub import read_hub
from quantgate.checkpoint.local import read_folder
from quantgate.checkpoint.raw import SourceError, assemble
from quantgate.findings import Verdict
from tests.support.build import data_size, header_bytes, healthy, write_checkpoint
from tests.support.hub_models import good_model
from tests.support.hub_server import GRANTED, TOKEN, Content, FakeHub
from tests.support.reading import ID, QUICK, read, verdict


def test_the_hub_gives_what_a_folder_gives(hub: FakeHub, tmp_path: Path) -> None:
    """The same files from the Hub and from disk make the same checkpoint."""
    config, tensors = healthy("awq")
    folder = write_checkpoint(tmp_path / "m", config, {"model.safetensors": tensors})
    hub.add_folder("org/same", folder)

    here, there = assemble(read_folder(folder)), assemble(read("org/same"))

    assert there.tensors == here.tensors
    assert there.configs == here.configs
    assert there.files == here.files
    assert there.revision == hub.repos["org/same"].commit
    assert verdict("org/same") == (Verdict.PASS, set())


def test_one_request_per_file(hub: FakeHub) -> None:
    """One listing, one GET per document and weight file, and the report counts what went by."""
    raw = read()

    assert [s.path for s in hub.requests("hub", "/api/")] == [f"/api/models/{ID}/revision/main"]
    assert len(hub.requests("hub", "/resolve/")) == 5
    assert all(f"/resolve/{raw.revision}/" in s.path for s in hub.requests("hub", "/resolve/"))
    assert len(hub.requests("storage")) == 2
    assert raw.requests == len(hub.seen)
    assert raw.bytes_read == hub.sent
    headers = sum(len(f.header) for f in raw.files if isinstance(f.header, bytes))
    ranges = [re.fullmatch(r"bytes=0-(\d+)", s.range) for s in hub.requests("storage")]
    assert headers <= sum(int(r[1]) for r in ranges if r) <= 1.15 * headers + 600


def test_second_range_only_where_the_first_fell_short(hub: FakeHub) -> None:
    """A header that is longer than its index lets expect is completed by the missing part."""
    metadata = {"note": "x" * 5000}
    config, tensors = healthy("gptq")
    head = header_bytes(tensors, metadata)
    index = {"weight_map": dict.fromkeys(tensors, "model.safetensors")}
    hub.add(
        "org/long",
        {
            "config.json": json.dumps(config).encode(),
            "model.safetensors": Content(head, len(head) + data_size(tensors)),
            "model.safetensors.index.json": json.dumps(index).encode(),
        },
    )

    raw = read("org/long")

    first, second = (s.range for s in hub.requests("storage"))
    assert raw.files[0].header == head[8:]
    assert second == f"bytes={int(first.partition('-')[2]) + 1}-{len(head) - 1}"


@pytest.mark.parametrize(
    "source", [ID, f"hf://{ID}", f"hf://models/{ID}@main", f"{ID}@v1.0", f"{ID}@refs/pr/3"]
)
def test_ways_to_name_a_revision(hub: FakeHub, source: str) -> None:
    """Branches, tags and pull requests of the Hub, with and without the scheme."""
    assert verdict(source) == (Verdict.PASS, set())


def test_commit_that_was_read_is_not_asked_for_again(hub: FakeHub, tmp_path: Path) -> None:
    """A second run at the same commit reads nothing, and one at its branch only the listing."""
    cache = Cache(tmp_path / "kept")
    first = read(cache=cache)
    before = len(hub.seen)

    again = read(f"{ID}@{first.revision}", cache=cache)
    by_name = read(cache=cache)

    assert (again.requests, again.bytes_read) == (0, 0)
    assert by_name.requests == 1 == len(hub.seen) - before
    assert again.files == first.files == by_name.files
    assert again.configs == first.configs
    assert again.index == first.index


def test_damaged_cache_is_no_cache(hub: FakeHub, tmp_path: Path) -> None:
    """An entry that was changed on disk is read again, and what is too much is removed."""
    cache = Cache(tmp_path / "kept")
    first = read(cache=cache)
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"!")

    assert read(cache=cache).files == first.files
    cache.prune(most=0)
    assert list((tmp_path / "kept").iterdir()) == []


def test_token_goes_to_its_own_host_only(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A private model is read with the token, which the storage never sees."""
    hub.add("org/private", good_model(), private=True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)

    assert verdict("org/private") == (Verdict.PASS, set())
    assert {s.token for s in hub.requests("hub")} == {TOKEN}
    assert {s.token for s in hub.requests("storage")} == {""}


@pytest.mark.parametrize(
    ("source", "token", "words"),
    [
        ("org/nothing", "", ["no repository 'org/nothing'", "HF_TOKEN"]),
        ("org/nothing", TOKEN, ["no repository 'org/nothing'", "the token may not read it"]),
        (f"{ID}@v9", "", ["has no revision 'v9'", ID]),
        (ID, "hf_wrong", ["does not accept the token"]),
        ("org/gated", "", ["gated", "/org/gated", "ask for access there", "HF_TOKEN"]),
        ("org/gated", TOKEN, ["gated", "/org/gated", "no access to it yet"]),
        ("org/gguf", "", ["no *.safetensors", "GGUF"]),
        ("org/mlx", "", ["no *.safetensors", "MLX"]),
        ("org/bin", "", ["no *.safetensors", "*.bin"]),
        ("org/nested", "", ["only in sub-folders"]),
        ("org/empty", "", ["no weights at all"]),
        ("hf://a/b/c", "", ["write org/name"]),
        ("hf://org/model@", "", ["write org/name"]),
        ("hf://org/model@../../x", "", ["has no revision"]),
    ],
)
def test_what_cannot_be_read_is_said(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, source: str, token: str, words: list[str]
) -> None:
    """Which of repository, revision, token and format is wrong, and what to do."""
    hub.add("org/gated", good_model(), gated=True)
    hub.add("org/gguf", {"config.json": b"{}", "m.gguf": b"GGUF"})
    hub.add("org/mlx", {"weights.npz": b"PK"})
    hub.add("org/bin", {"pytorch_model.bin": b"PK"})
    hub.add("org/nested", {"unet/model.safetensors": b"x"})
    hub.add("org/empty", {"README.md": b"soon"})
    if token:
        monkeypatch.setenv("HF_TOKEN", token)

    with pytest.raises(SourceError) as error:
        read(source)
    for word in words:
        assert word in str(error.value)
    assert verdict(source)[0] is Verdict.UNVERIFIED


def test_gated_model_with_access(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token with access reads a gated model."""
    hub.add("org/gated", good_model(), gated=True)
    monkeypatch.setenv("HF_TOKEN", GRANTED)
    assert verdict("org/gated") == (Verdict.PASS, set())


def test_pickled_weights_are_a_matter_of_a_rule(hub: FakeHub) -> None:
    """A config beside pickled weights is checked as far as it goes, as in a folder."""
    hub.add("org/pickled", {"config.json": b"{}", "pytorch_model.bin": b"PK"})
    found, rules = verdict("org/pickled")
    assert found is Verdict.UNVERIFIED
    assert "QG207" in rules


def test_offline_mode(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_HUB_OFFLINE is honoured, and named."""
    monkeypatch.setattr(constants, "is_offline_mode", lambda: True)
    with pytest.raises(SourceError, match="HF_HUB_OFFLINE"):
        read()
    assert hub.seen == []


@pytest.mark.parametrize("endpoint", ["nowhere", "ftp://x", "http://"])
def test_endpoint_that_is_none(endpoint: str) -> None:
    """A wrong HF_ENDPOINT is told by name."""
    with pytest.raises(SourceError, match="HF_ENDPOINT"):
        read_hub(ID, endpoint=endpoint, cache=Cache(None))


def test_unreachable_hub(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hub that is not there is an error of the source."""
    with pytest.raises(SourceError, match="cannot be reached"):
        read_hub(ID, endpoint="http://127.0.0.1:1", limits=QUICK, cache=Cache(None))


def test_client_is_the_major_that_was_tested() -> None:
    """The helpers of huggingface_hub that are used belong to its second major."""
    assert huggingface_hub.__version__.startswith("2.")
