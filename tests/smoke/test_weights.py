"""Which files of a model folder vLLM is given, and which it never sees."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from quantgate.vllm.smoke.settings import MAX_MODEL_LEN
from quantgate.vllm.smoke.weights import NoWeights, prepare
from tests.support.build import healthy, write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with a tokenizer."""
    config, tensors = healthy("awq")
    folder = write_checkpoint(tmp_path / "model-folder", config, {"model.safetensors": tensors})
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Where the folder for vLLM is made."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_vllm_gets_links_to_what_it_may_read(model: Path, scratch: Path) -> None:
    """Nothing is copied, and code, pickles and sub-folders stay where they are."""
    for name in ("modeling_evil.py", "pytorch_model.bin", ".hidden.json"):
        (model / name).write_text("{}")
    (model / "original").mkdir()
    (model / "folder.json").mkdir()

    made = prepare(str(model), scratch).folder

    assert made.is_relative_to(scratch)
    wanted = {"config.json", "model.safetensors", "tokenizer.json"}
    assert {p.name: p.readlink() for p in made.iterdir()} == {n: model / n for n in wanted}


def test_a_snapshot_of_the_hub_cache(model: Path, scratch: Path, tmp_path: Path) -> None:
    """Its links lead to blobs beside it, and that is where vLLM reads."""
    cache = tmp_path / "models--a--b"
    (cache / "snapshots").mkdir(parents=True)
    (cache / "blobs").mkdir()
    snapshot = cache / "snapshots" / "0123abc"
    snapshot.mkdir()
    for number, path in enumerate(sorted(model.iterdir())):
        path.rename(cache / "blobs" / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    (tmp_path / "link").symlink_to(snapshot)

    prepared = prepare(str(tmp_path / "link"), scratch)

    assert prepared.has_tokenizer
    assert {p.readlink().parent for p in prepared.folder.iterdir()} == {cache / "blobs"}


@pytest.mark.parametrize(
    "name", ["vocab.txt", "tokenizer.json", "config.json", "model.safetensors", "chat.jinja"]
)
@pytest.mark.parametrize("target", ["/etc/passwd", "../secret", "/proc/self/environ"])
def test_no_link_leads_out(
    model: Path, scratch: Path, tmp_path: Path, name: str, target: str
) -> None:
    """What a crafted model could speak into the report is not read at all."""
    (tmp_path / "secret").write_text("secret")
    (model / name).unlink(missing_ok=True)
    (model / name).symlink_to(target)
    with pytest.raises(NoWeights, match=f"^{name} is a link that leads out of the model folder$"):
        prepare(str(model), scratch)
    assert list(scratch.iterdir()) == []


def test_a_link_within_is_fine(model: Path, scratch: Path) -> None:
    """Two names of one file are no way out."""
    (model / "vocab.json").symlink_to("tokenizer.json")
    made = prepare(str(model), scratch).folder
    assert (made / "vocab.json").readlink() == model / "tokenizer.json"


def test_no_path_leads_out(model: Path, scratch: Path) -> None:
    """Nor is a file read that a tokenizer's config names."""
    config = '{"tokenizer_class": "BertTokenizer", "vocab": "/etc/passwd"}'
    (model / "tokenizer_config.json").write_text(config)
    made = prepare(str(model), scratch).folder
    assert (made / "tokenizer_config.json").read_text() == '{"tokenizer_class": "BertTokenizer"}'
    assert (model / "tokenizer_config.json").read_text() == config


def test_a_tokenizer_config_that_makes_no_sense(model: Path, scratch: Path) -> None:
    """What cannot be looked through is not given to vLLM."""
    (model / "tokenizer_config.json").write_text("{")
    with pytest.raises(NoWeights, match=r"^tokenizer_config\.json is no JSON"):
        prepare(str(model), scratch)


def test_what_is_no_file(model: Path, scratch: Path) -> None:
    """A FIFO would make vLLM wait for ever, and a link to nothing says what is missing."""
    os.mkfifo(model / "vocab.txt")
    with pytest.raises(NoWeights, match=r"^vocab\.txt is not a regular file$"):
        prepare(str(model), scratch)
    (model / "vocab.txt").unlink()
    (model / "vocab.txt").symlink_to("none")
    with pytest.raises(NoWeights, match=r"^vocab\.txt cannot be read: No such file"):
        prepare(str(model), scratch)


@pytest.mark.parametrize("name", ["config.json", "quantize_config.json"])
def test_configs_of_any_size(model: Path, scratch: Path, name: str) -> None:
    """A config that is too large for the headers tier is too large here."""
    with (model / name).open("wb") as stream:
        stream.truncate(4 << 30)
    with pytest.raises(NoWeights, match=f"^{name} is larger than 32000000 bytes$"):
        prepare(str(model), scratch)


def test_a_tokenizer_of_any_size(model: Path, scratch: Path) -> None:
    """Nor is a tokenizer that is none given to vLLM."""
    with (model / "tokenizer.json").open("wb") as stream:
        stream.truncate(2 << 30)
    with pytest.raises(NoWeights, match=r"^tokenizer\.json is larger than 1\.0 GB$"):
        prepare(str(model), scratch)


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ('{"max_position_embeddings": 512}', 512),
        ('{"text_config": {"max_position_embeddings": 16}}', 16),
        ('{"max_position_embeddings": 100000}', MAX_MODEL_LEN),
        ('{"max_position_embeddings": true}', MAX_MODEL_LEN),
        ('{"max_position_embeddings": "8"}', MAX_MODEL_LEN),
        ("[[", MAX_MODEL_LEN),
    ],
)
def test_context(model: Path, scratch: Path, config: str, tokens: int) -> None:
    """As much as the config says, and no more than is needed."""
    (model / "config.json").write_text(config)
    assert prepare(str(model), scratch).max_model_len == tokens


@pytest.mark.parametrize("positions", [1, 2, 15])
def test_too_few_positions(model: Path, scratch: Path, positions: int) -> None:
    """A prompt of nothing would fail, and that would be no fault of the weights."""
    (model / "config.json").write_text(f'{{"max_position_embeddings": {positions}}}')
    with pytest.raises(NoWeights, match=f"gives it {positions} positions, too few to read a text"):
        prepare(str(model), scratch)
