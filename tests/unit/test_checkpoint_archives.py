"""Header archives: what one keeps, how it is written, and what is no archive."""

from __future__ import annotations

import gzip
import json
import stat
from pathlib import Path

import pytest

from quantgate.checkpoint import Checkpoint, DefectKind, SourceError, open_checkpoint, read_source
from quantgate.checkpoint import archive as archive_module
from quantgate.checkpoint.archive import read_archive, write_archive
from quantgate.checkpoint.local import read_folder
from quantgate.checkpoint.raw import RawCheckpoint, RawDocument, assemble
from tests.support.folders import POINTER, model, weights

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


def everything(tmp_path: Path) -> Path:
    """A model in which much is wrong, and each part in another way."""
    folder = model(
        tmp_path / "model",
        config__json='{"text": "\\u2028 \u00e9 \\"", "nan": NaN}',
        quantize_config__json=b"\xff\xfe",
        hf_quant_config__json=b"[" * 200_000,
        params__json=POINTER,
        model__safetensors__index__json={"weight_map": {"a": "model-2.safetensors"}},
        model_bad_utf8__safetensors=weights("a")[:8] + b'{"\xff' + bytes(100),
        model_cut__safetensors=weights("a", "b")[:-1],
        model_empty__safetensors=b"",
        model_pointer__safetensors=POINTER,
        model_twice__safetensors=weights("a1", "a2").replace(b"a2", b"a1"),
        README__md="# secret prose",
        x__bin=b"",
        **{f"model-{i}__safetensors": weights(f"t{i}", metadata={"format": "pt"}) for i in (10, 2)},
    )
    (folder / "outside.safetensors").symlink_to("/etc/hostname")
    return folder


def comparable(checkpoint: Checkpoint) -> tuple:
    """All facts but where they were read, as text since NaN is not equal to itself."""
    return (
        repr(checkpoint.configs),
        checkpoint.files,
        checkpoint.index,
        checkpoint.other_files,
        checkpoint.revision,
    )


def test_an_archive_keeps_everything(tmp_path):
    """A packed model gives the same checkpoint, every defect included."""
    folder = everything(tmp_path)
    write_archive(read_source(str(folder)), tmp_path / "m.json.gz")
    direct, packed = open_checkpoint(str(folder)), open_checkpoint(str(tmp_path / "m.json.gz"))
    assert comparable(packed) == comparable(direct)
    kinds = {d.kind for f in direct.files for d in (f.header.defects if f.header else f.defects)}
    assert kinds == {
        DefectKind.MALFORMED,
        DefectKind.TRUNCATED,
        DefectKind.NOT_FETCHED,
        DefectKind.OUTSIDE,
        DefectKind.DUPLICATE_KEY,
        DefectKind.OFFSETS,  # the place of the first of two equal names
    }
    assert packed.source == str(tmp_path / "m.json.gz")
    assert packed.bytes_read == (tmp_path / "m.json.gz").stat().st_size


def test_archives_of_archives_are_equal(tmp_path):
    """Packing a packed model changes nothing but the source it names."""
    write_archive(read_source(str(everything(tmp_path))), tmp_path / "1.json.gz")
    write_archive(read_archive(tmp_path / "1.json.gz"), tmp_path / "2.json.gz")
    first, second = (
        json.loads(gzip.decompress((tmp_path / f"{i}.json.gz").read_bytes())) for i in (1, 2)
    )
    assert first.pop("source") != second.pop("source")
    assert first == second


def test_archives_are_deterministic(tmp_path):
    """The same model gives the same bytes, whatever the order, and no text of the README."""
    raw = read_folder(everything(tmp_path))
    turned = RawCheckpoint(
        raw.source, raw.configs[::-1], raw.files[::-1], raw.index, raw.other_files[::-1]
    )
    write_archive(raw, tmp_path / "1.json.gz")
    write_archive(turned, tmp_path / "2.json.gz")
    assert (tmp_path / "1.json.gz").read_bytes() == (tmp_path / "2.json.gz").read_bytes()
    assert b"secret prose" not in gzip.decompress((tmp_path / "1.json.gz").read_bytes())
    assert open_checkpoint(str(tmp_path / "1.json.gz")).other_files == ("README.md", "x.bin")


def test_a_revision_is_kept(tmp_path):
    """The commit of a source that has one is in the archive."""
    raw = RawCheckpoint("org/m", (RawDocument("config.json", b"{}"),), revision="0123abc")
    write_archive(raw, tmp_path / "m.json.gz")
    assert open_checkpoint(str(tmp_path / "m.json.gz")).revision == "0123abc"


def test_an_archive_is_written_in_full_or_not_at_all(tmp_path, monkeypatch):
    """A failed write leaves the old archive and nothing else; a good one can be read by all."""
    raw = RawCheckpoint("m", (RawDocument("config.json", b"{}"),))
    write_archive(raw, tmp_path / "m.json.gz")
    before = (tmp_path / "m.json.gz").read_bytes()
    assert stat.S_IMODE((tmp_path / "m.json.gz").stat().st_mode) == 0o644

    def fail(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive_module.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_archive(RawCheckpoint("other"), tmp_path / "m.json.gz")
    assert [p.name for p in tmp_path.iterdir()] == ["m.json.gz"]
    assert (tmp_path / "m.json.gz").read_bytes() == before


def test_an_archive_that_unpacks_to_too_much(tmp_path, monkeypatch):
    """A decompression bomb is refused, and such an archive is not written either."""
    monkeypatch.setattr(archive_module, "MAX_UNPACKED", 1000)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * 1_000_000))
    with pytest.raises(SourceError, match="unpacks to more than"):
        read_archive(tmp_path / "bomb.json.gz")
    with pytest.raises(SourceError, match="too large"):
        write_archive(RawCheckpoint("m" * 2000), tmp_path / "m.json.gz")


def good_archive() -> dict:
    return {
        "quantgate_archive": 1,
        "source": "m",
        "revision": None,
        "configs": {"config.json": {"text": "{}"}},
        "index": None,
        "files": [{"name": "a.safetensors", "size": 10, "header": {"text": "{}"}}],
        "other_files": [],
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("quantgate_archive", 2),
        ("revision", 1),
        ("configs", []),
        ("configs", {"config.json": "text"}),
        ("configs", {"config.json": {}}),
        ("configs", {"config.json": {"text": 1}}),
        ("configs", {"config.json": {"text": "\ud800"}}),
        ("configs", {"config.json": {"base64": "*"}}),
        ("configs", {"config.json": {"defect": {"kind": "nice", "message": ""}}}),
        ("configs", {"config.json": {"defect": {"kind": [], "message": ""}}}),
        ("configs", {"../config.json": {"text": "{}"}}),
        ("index", {"name": "i"}),
        ("index", "i"),
        ("files", {}.fromkeys("ab")),
        ("files", [{"name": "", "size": 1, "header": {"text": "{}"}}]),
        ("files", [{"name": "a", "size": True, "header": {"text": "{}"}}]),
        ("files", [{"name": "a", "size": -1, "header": {"text": "{}"}}]),
        ("files", [{"name": "a", "size": 2**63, "header": {"text": "{}"}}]),
        ("files", [{"name": "a", "size": 1, "header": {"text": "{}"}}] * 2),
        ("files", [None]),
        ("other_files", [1]),
        ("other_files", None),
    ],
)
def test_malformed_archives(tmp_path, key, value):
    """An archive with one wrong part is refused in one sentence, the sound one is not."""
    path = tmp_path / "m.json.gz"
    path.write_bytes(gzip.compress(json.dumps(good_archive()).encode()))
    assert open_checkpoint(str(path)).bytes_total == 10
    path.write_bytes(gzip.compress(json.dumps(good_archive() | {key: value}).encode()))
    with pytest.raises(SourceError) as error:
        open_checkpoint(str(path))
    assert str(error.value).endswith(".")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        gzip.compress(b"{}")[:-9],
        gzip.compress(b"{}")[:12] + b"\xff" * 20,
        gzip.compress(b"{}"),
        gzip.compress(b"[]"),
        gzip.compress(b"{"),
        gzip.compress(b"\xff"),
        gzip.compress(b"[" * 200_000),
    ],
)
def test_what_is_no_archive(tmp_path, content):
    """Damaged gzip and foreign JSON are refused in one sentence."""
    (tmp_path / "m.json.gz").write_bytes(content)
    with pytest.raises(SourceError):
        open_checkpoint(str(tmp_path / "m.json.gz"))


def test_an_archive_is_not_trusted_more_than_a_file(tmp_path):
    """A header in an archive is parsed against the size stated there, like that of a file."""
    document = good_archive()
    document["files"][0]["size"] = 11
    (tmp_path / "m.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    (file,) = open_checkpoint(str(tmp_path / "m.json.gz")).files
    assert file.header is not None
    assert [d.kind for d in file.header.defects] == [DefectKind.TRAILING]


@pytest.mark.corpus
@pytest.mark.skipif(not CORPUS.is_dir(), reason="the collection is not here")
def test_real_checkpoints(tmp_path):
    """Every folder of the collection is read, and its archive gives the same facts."""
    count = 0
    for folder in sorted(p for p in CORPUS.rglob("*") if p.is_dir()):
        try:
            raw = read_source(str(folder))
        except SourceError:
            continue
        count += 1
        write_archive(raw, tmp_path / "m.json.gz")
        found = assemble(raw)
        assert comparable(assemble(read_archive(tmp_path / "m.json.gz"))) == comparable(found)
        if "config.json" in found.configs:
            assert found.configs["config.json"].error == "", folder
        for file in found.files:
            problems = file.header.defects if file.header else file.defects
            assert {d.kind for d in problems} <= {DefectKind.NOT_FETCHED}, (folder, file.name)
            assert file.size > 1000
    assert count > 50
