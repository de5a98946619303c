"""From a folder to a checkpoint: its weight files, sound and broken."""

from __future__ import annotations

import gc
import os

import pytest

from quantgate.checkpoint import (
    ConfigFile,
    Defect,
    DefectKind,
    Index,
    WeightFile,
    open_checkpoint,
    read_source,
)
from quantgate.checkpoint import local as local_module
from quantgate.checkpoint.archive import write_archive
from quantgate.checkpoint.raw import RawCheckpoint, RawDocument, RawFile, assemble, natural_key
from tests.support.folders import POINTER, file_of, kind_of, model, weights


def test_a_folder(tmp_path):
    """Configs, index, weight files in natural order and the names of the rest."""
    folder = model(
        tmp_path / "m",
        config__json={"model_type": "llama"},
        hf_quant_config__json={"quantization": {}},
        recipe__yaml="a: [1, b]\nmade: 2026-11-30\n2: yes",
        README__md="# no",
        x__gguf=b"GGUF",
        **{f"model-{i}__safetensors": weights(f"t{i}") for i in (10, 9, 1)},
        model__safetensors__index__json={
            "weight_map": {f"t{i}": f"model-{i}.safetensors" for i in (1, 9, 10)}
        },
    )
    (folder / "sub").mkdir()
    model(folder / "sub", model__safetensors=weights("hidden"))
    model(folder, __hidden__safetensors=weights("h"))
    found = open_checkpoint(str(folder))
    assert found.source == str(folder)
    assert found.revision is None
    assert found.config == {"model_type": "llama"}
    assert found.configs.keys() == {"config.json", "hf_quant_config.json", "recipe.yaml"}
    assert found.configs["recipe.yaml"].value == {
        "a": [1, "b"],
        "made": "2026-11-30",
        2: True,
    }
    assert [f.name for f in found.files] == [f"model-{i}.safetensors" for i in (1, 9, 10)]
    assert found.index is not None
    assert found.index.error == ""
    assert set(found.tensors) == {"t1", "t9", "t10"}
    assert found.other_files == ("README.md", "x.gguf")
    read = sum(
        p.stat().st_size - (p.suffix == ".safetensors")
        for p in folder.iterdir()
        if p.name in found.configs.keys() | {found.index.name} | {f.name for f in found.files}
    )
    assert found.bytes_read == read
    assert found.bytes_total == sum(p.stat().st_size for p in folder.glob("m*.safetensors"))
    assert gc.isenabled()


def test_git_lfs_pointers(tmp_path):
    """A pointer gives the real size and says that the file is not here, also for a config."""
    folder = model(tmp_path, config__json=POINTER, model__safetensors=POINTER)
    found = open_checkpoint(str(folder))
    assert kind_of(found, "model.safetensors") is DefectKind.NOT_FETCHED
    assert found.bytes_total == 4800
    assert found.configs["config.json"].kind is DefectKind.NOT_FETCHED
    assert "Git LFS" in found.configs["config.json"].error
    assert found.config == {}


def test_a_pointer_without_a_size(tmp_path):
    """A broken pointer is still a pointer."""
    model(tmp_path, model__safetensors=POINTER.replace(b"size", b"sizes"))
    found = open_checkpoint(str(tmp_path))
    assert kind_of(found, "model.safetensors") is DefectKind.NOT_FETCHED
    assert found.bytes_total == 0


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", DefectKind.MALFORMED),
        (b"1234567", DefectKind.MALFORMED),
        ((2**63).to_bytes(8, "little"), DefectKind.TOO_LARGE),
        (b"\xff" * 600, DefectKind.TOO_LARGE),
        (b"\x10" + bytes(7) + b"{}", DefectKind.TRUNCATED),
        (b"version of something else, not a pointer", DefectKind.TOO_LARGE),
        (weights("a")[:8] + b"[" * 100, DefectKind.MALFORMED),
    ],
)
def test_broken_weight_files(tmp_path, content, kind):
    """A weight file that cannot be parsed at all has one defect, its size and no header."""
    model(tmp_path, model__safetensors=content)
    found = open_checkpoint(str(tmp_path))
    assert kind_of(found, "model.safetensors") is kind
    assert found.bytes_total == len(content)
    assert found.tensors == {}


def test_one_broken_file_does_not_hide_the_others(tmp_path):
    """The tensors of the sound files are there."""
    model(tmp_path, a__safetensors=b"", b__safetensors=weights("t"), c__safetensors=POINTER)
    assert set(open_checkpoint(str(tmp_path)).tensors) == {"t"}


def test_headers_of_one_model_have_a_limit_together(tmp_path, monkeypatch):
    """Beyond the limit a header is not read, and that is told as our own limit."""
    data = weights("a")
    monkeypatch.setattr(local_module, "MAX_HEADERS", len(data) + 10)
    model(tmp_path, a__safetensors=data, b__safetensors=data)
    found = open_checkpoint(str(tmp_path))
    assert file_of(found, "a.safetensors").header is not None
    assert kind_of(found, "b.safetensors") is DefectKind.TOO_LARGE
    assert file_of(found, "b.safetensors").defects[0].strict


def test_natural_order():
    """Numbers count as numbers, and names that begin with one do not break the comparison."""
    names = ["model-10", "model-9", "10", "9", "model", "model-1-of-2", "²"]
    assert sorted(names, key=natural_key) == [
        "9",
        "10",
        "model",
        "model-1-of-2",
        "model-9",
        "model-10",
        "²",
    ]


def test_a_name_that_is_not_utf8(tmp_path):
    """Such a name is shown with escapes and its file is read all the same."""
    path = os.fsencode(tmp_path) + b"/a\xff.safetensors"
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    except OSError:
        pytest.skip("the file system wants UTF-8 names")
    with open(path, "wb") as stream:  # noqa: PTH123
        stream.write(weights("t"))
    found = open_checkpoint(str(tmp_path))
    assert [f.name for f in found.files] == ["a\\xff.safetensors"]
    assert set(found.tensors) == {"t"}
    write_archive(read_source(str(tmp_path)), tmp_path / "a.json.gz")
    assert open_checkpoint(str(tmp_path / "a.json.gz")).files == found.files


def test_assemble_keeps_reasons():
    """Defects of the source become errors of configs and index and defects of files."""
    defect = Defect(DefectKind.UNREADABLE, "cannot be read: why")
    found = assemble(
        RawCheckpoint(
            "m",
            (RawDocument("config.json", defect),),
            (RawFile("a.safetensors", 0, defect),),
            RawDocument("model.safetensors.index.json", defect),
        )
    )
    assert found.configs["config.json"] == ConfigFile(
        "config.json", None, defect.message, DefectKind.UNREADABLE
    )
    assert found.index == Index(
        "model.safetensors.index.json", {}, defect.message, DefectKind.UNREADABLE
    )
    assert found.files == (WeightFile("a.safetensors", 0, None, (defect,)),)
