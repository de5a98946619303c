"""From a folder, an archive or a wrong source to a checkpoint, with hostile ones among them."""

from __future__ import annotations

import gc
import gzip
import json
import os
import stat
from pathlib import Path

import pytest

from quantgate.checkpoint import (
    Checkpoint,
    ConfigFile,
    Defect,
    DefectKind,
    Index,
    SourceError,
    WeightFile,
    open_checkpoint,
    read_source,
)
from quantgate.checkpoint import archive as archive_module
from quantgate.checkpoint import local as local_module
from quantgate.checkpoint.archive import read_archive, write_archive
from quantgate.checkpoint.local import read_folder
from quantgate.checkpoint.raw import (
    RawCheckpoint,
    RawDocument,
    RawFile,
    assemble,
    choose_index,
    natural_key,
)

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 4800\n" % (b"0" * 64)


def weights(*names: str, metadata: dict | None = None) -> bytes:
    """A safetensors file with one byte per tensor."""
    header: dict = {
        name: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]}
        for i, name in enumerate(names)
    }
    if metadata is not None:
        header["__metadata__"] = metadata
    blob = json.dumps(header).encode()
    return len(blob).to_bytes(8, "little") + blob + bytes(len(names))


def model(folder: Path, **files: bytes | str | dict) -> Path:
    """Write files, `__` in a name standing for a dot, and give back the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = json.dumps(content) if isinstance(content, dict) else content
        data = text.encode() if isinstance(text, str) else text
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def file_of(checkpoint: Checkpoint, name: str) -> WeightFile:
    return next(f for f in checkpoint.files if f.name == name)


def kind_of(checkpoint: Checkpoint, name: str) -> DefectKind:
    file = file_of(checkpoint, name)
    assert file.header is None
    (defect,) = file.defects
    return defect.kind


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


def test_index_names_are_never_opened(tmp_path, monkeypatch):
    """What an index says leads to no file access, be it `..`, absolute or a sub-folder."""
    opened: list[str] = []
    real_open = os.open

    def spy(path, *rest, **options):
        opened.append(os.fspath(path))
        return real_open(path, *rest, **options)

    monkeypatch.setattr(local_module.os, "open", spy)
    names = ["../../etc/passwd", "/etc/passwd", "sub/model.safetensors", "..", "absent.safetensors"]
    model(tmp_path / "sub", model__safetensors=weights("s"))
    model(
        tmp_path,
        config__json={},
        model__safetensors=weights("a"),
        model__safetensors__index__json={"weight_map": dict(zip("abcde", names, strict=True))},
    )
    found = open_checkpoint(str(tmp_path))
    assert found.index is not None
    assert list(found.index.weight_map.values()) == names
    assert [f.name for f in found.files] == ["model.safetensors"]
    assert found.loaded_files == ()
    assert sorted(Path(p).name for p in opened) == [
        "config.json",
        "model.safetensors",
        "model.safetensors.index.json",
    ]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff{}", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"[" * 200_000, "nested"),
        (b"[" * 101 + b"]" * 101, "nested"),
        (b'{"a":' * 500 + b"1" + b"}" * 500, "nested"),
        (b"1" * 5000, "not JSON"),
        (b"1" * 310, "out of range"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\udc00": 1}', "surrogate"),
    ],
)
def test_broken_configs(tmp_path, content, error):
    """A config that cannot be read keeps the reason and has no value."""
    model(tmp_path, config__json=content)
    found = open_checkpoint(str(tmp_path)).configs["config.json"]
    assert found.value is None
    assert error in found.error
    assert found.kind is DefectKind.MALFORMED


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"[]", []),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'{"a": Infinity}', {"a": float("inf")}),
        (b'{"\\ud83d\\ude00": "\xc3\xa9"}', {"\U0001f600": "\u00e9"}),
        (b"[" * 100 + b"]" * 100, None),
    ],
)
def test_odd_configs_are_read_as_python_does(tmp_path, content, value):
    """Equal keys, NaN and a document that is no object are values, not errors."""
    model(tmp_path, config__json=content)
    found = open_checkpoint(str(tmp_path)).configs["config.json"]
    assert found.error == ""
    assert found.kind is None
    assert found.value == (json.loads(content) if value is None else value)


def test_a_large_config_is_not_read(tmp_path, monkeypatch):
    """Above the limit there is an error instead of a value."""
    monkeypatch.setattr(local_module, "MAX_CONFIG", 100)
    model(tmp_path, config__json={"a": "x" * 100})
    found = open_checkpoint(str(tmp_path)).configs["config.json"]
    assert found.kind is DefectKind.TOO_LARGE


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [1]\nb: *x\n",
        "a: &x [*x]\n",
        "!!python/object/apply:os.system ['true']",
        "!!int ''",
        "!!bool maybe",
        "!!timestamp [1]",
        "? [a]\n: 1",
        "- [" * 5000,
        "a: 1\n---\nb: 2\n",
        "a: \x07",
        'a: "\\ud800"',
        "a: " + ":".join(["1"] * 10_000),
        "a: !!binary aGk=",
        "!!set {a, b}",
        "[" * 150 + "]" * 150,
        "a: " + "x" * 256_000,
    ],
)
def test_hostile_yaml(tmp_path, text):
    """Aliases, tags of Python, wrong tags and depth are errors, never a traceback or a bomb."""
    model(tmp_path, config__json={}, recipe__yaml=text)
    found = open_checkpoint(str(tmp_path)).configs["recipe.yaml"]
    assert found.value is None
    assert found.error
    assert found.kind in {DefectKind.MALFORMED, DefectKind.TOO_LARGE}


@pytest.mark.parametrize(
    "content", [b"x", b"[]", b"{}", b'{"weight_map": []}', b'{"weight_map": {"a": 1}}']
)
def test_broken_index(tmp_path, content):
    """An unusable index keeps the reason, and all weight files count as read."""
    name = "model.safetensors.index.json"
    model(tmp_path, a__safetensors=weights("a"), **{name.replace(".", "__"): content})
    found = open_checkpoint(str(tmp_path))
    assert found.index is not None
    assert found.index.name == name
    assert found.index.error
    assert set(found.tensors) == {"a"}


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], None),
        (["model.safetensors.index.json"], "model.safetensors.index.json"),
        (["other.safetensors.index.json"], "other.safetensors.index.json"),
        (["other.safetensors.index.json", "another.safetensors.index.json"], None),
        (
            ["a.safetensors.index.json", "model.safetensors.index.json"],
            "model.safetensors.index.json",
        ),
        (
            [
                "consolidated.safetensors",
                "consolidated.safetensors.index.json",
                "model.safetensors.index.json",
            ],
            "consolidated.safetensors.index.json",
        ),
        (
            ["consolidated.safetensors", "model.safetensors.index.json"],
            "model.safetensors.index.json",
        ),
        (["pytorch_model.bin.index.json"], None),
    ],
)
def test_choice_of_the_index(names, chosen):
    """The index is the one vLLM looks for, otherwise the only one."""
    assert choose_index(names) == chosen


def test_vllm_reads_only_consolidated_files():
    """Beside `consolidated*.safetensors` the others and their index do not count."""
    files = tuple(WeightFile(n, 1, None) for n in ("consolidated.safetensors", "model.safetensors"))
    index = Index("model.safetensors.index.json", {"a": "model.safetensors"})
    found = Checkpoint("m", {}, files, index)
    assert [f.name for f in found.loaded_files] == ["consolidated.safetensors"]
    own = Index("consolidated.safetensors.index.json", {"a": "absent.safetensors"})
    assert Checkpoint("m", {}, files, own).loaded_files == ()
    other = Index("other.safetensors.index.json", {})
    assert Checkpoint("m", {}, files[1:], other).loaded_files == files[1:]


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


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "There is no ''."),
        ("nowhere", "There is no 'nowhere'."),
        ("./nowhere/at/all", "There is no './nowhere/at/all'."),
        ("a\0b", "'a\\x00b'"),
        ("x" * 5000, "cannot be read: File name too long"),
    ],
)
def test_no_such_source(tmp_path, monkeypatch, source, message):
    """The message names the source and says what it might have been."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError) as error:
        open_checkpoint(source)
    assert message in str(error.value)


def test_wrong_kinds_of_source(tmp_path):
    """An empty folder, a file that is no archive and a pipe are told apart."""
    model(tmp_path / "empty", README__md="")
    model(tmp_path, model__safetensors=weights("a"))
    os.mkfifo(tmp_path / "x.json.gz")
    for name, message in (
        ("empty", "neither config.json nor"),
        ("model.safetensors", "neither a model folder nor a header archive"),
        ("x.json.gz", "neither a model folder nor a header archive"),
    ):
        with pytest.raises(SourceError, match=message):
            open_checkpoint(str(tmp_path / name))


def test_a_folder_that_cannot_be_listed(tmp_path, monkeypatch):
    """A folder without permission to list it is a source error with the reason."""

    def refuse(_self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(SourceError, match="Permission denied"):
        open_checkpoint(str(tmp_path))


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
