"""What the rules on containers and files say where a YAML case cannot show it."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgate.checkpoint.model import Checkpoint, Defect, DefectKind, WeightFile
from quantgate.checkpoint.names import foreign_format, is_pickle, leads_out
from quantgate.checkpoint.raw import RawCheckpoint, RawDocument, RawFile, assemble
from quantgate.checkpoint.sources import open_checkpoint
from quantgate.findings import Finding, Outcome, Verdict
from quantgate.report.model import ModelReport
from quantgate.rules import all_rules
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from tests.support.build import header_bytes, healthy, write_checkpoint
from tests.support.declarations import DECLARATIONS
from tests.support.hub_models import model_files
from tests.support.memory import checkpoint_of

RULES = [r for r in all_rules() if r.id[2] in "12"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
FILES = st.sampled_from(["a.safetensors", "b.safetensors", "../c", "/etc/passwd", "", "a\n|`"])


def check(checkpoint: Checkpoint) -> ModelReport:
    """Apply the rules on containers and files."""
    return check_checkpoint(checkpoint, [Target()], RULES)


def only(checkpoint: Checkpoint) -> Finding:
    """The single finding on a checkpoint."""
    (finding,) = check(checkpoint).findings
    return finding


def test_link_out_of_the_folder_is_an_error(tmp_path: Path) -> None:
    """A weight file that is a link to elsewhere is named, not followed."""
    config, tensors = healthy("gptq")
    folder = write_checkpoint(tmp_path / "model", config, {"model.safetensors": tensors})
    (folder / "model.safetensors").rename(tmp_path / "elsewhere.safetensors")
    (folder / "model.safetensors").symlink_to(tmp_path / "elsewhere.safetensors")

    finding = only(open_checkpoint(str(folder)))

    assert (finding.rule, finding.outcome) == ("QG206", Outcome.CONDITIONAL)
    assert finding.pattern == "model.safetensors"


def test_config_that_is_a_link_out_is_named_once(tmp_path: Path) -> None:
    """QG206 speaks of the link; QG208 does not repeat it."""
    config, tensors = healthy("gptq")
    folder = write_checkpoint(tmp_path / "model", config, {"model.safetensors": tensors})
    (folder / "config.json").rename(tmp_path / "config.json")
    (folder / "config.json").symlink_to(tmp_path / "config.json")

    finding = only(open_checkpoint(str(folder)))

    assert (finding.rule, finding.pattern) == ("QG206", "config.json")


def test_header_beyond_the_budget_is_unverified() -> None:
    """A header that quantgate did not want to read is no fault of the file."""
    defect = Defect(DefectKind.TOO_LARGE, "the header claims 9 bytes, the limit is 8", strict=True)
    raw = RawCheckpoint("m", (RawDocument("config.json", b"{}"),), (RawFile("a", 17, defect),))

    report = check(assemble(raw))

    assert [f.rule for f in report.findings] == ["QG209"]
    assert report.verdict is Verdict.UNVERIFIED


def test_directory_in_place_of_weights_is_unverified(tmp_path: Path) -> None:
    """What cannot be read blocks, and is not called malformed."""
    folder = write_checkpoint(tmp_path / "model", {}, {})
    (folder / "model.safetensors").mkdir()

    finding = only(open_checkpoint(str(folder)))

    assert (finding.rule, finding.unverified) == ("QG209", True)


def test_forty_pointers_are_one_finding() -> None:
    """Numbered files with the same fault share a line."""
    defect = Defect(DefectKind.NOT_FETCHED, "is a Git LFS pointer")
    names = [f"model-{i:05d}-of-00040.safetensors" for i in range(1, 41)]
    files = tuple(WeightFile(n, 1000, None, (defect,)) for n in names)
    config = assemble(RawCheckpoint("m", (RawDocument("config.json", b"{}"),))).configs

    finding = only(Checkpoint("m", config, files))

    assert (finding.pattern, finding.count) == ("model-*-of-00040.safetensors", 40)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(JSON, st.dictionaries(st.sampled_from("ab"), JSON | FILES)),
    st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "w", ""]), JSON),
    st.sampled_from(["model", "consolidated", "other"]),
)
def test_hostile_index_and_headers_never_raise(index: object, header: object, kind: str) -> None:
    """Any JSON in place of a weight_map, a header or a config gives findings, not a traceback."""
    sound = header_bytes({"a": "U8[1]", "b": "F16[2]"})
    blob = json.dumps({"w": header, "x": index}).encode()
    raw = RawCheckpoint(
        source="hostile",
        configs=(RawDocument("config.json", json.dumps(index).encode()),),
        files=(
            RawFile("a.safetensors", len(sound) + 5, sound[8:]),
            RawFile("b.safetensors", 8 + len(blob), blob),
            *((RawFile("consolidated.safetensors", 9, b"{}"),) if kind == "consolidated" else ()),
        ),
        index=RawDocument(
            f"{kind}.safetensors.index.json", json.dumps({"weight_map": index}).encode()
        ),
    )

    report = check(assemble(raw))

    assert report.verdict in {Verdict.FAIL, Verdict.UNVERIFIED, Verdict.WARN}


def test_names_that_lead_out() -> None:
    """Absolute paths and `..` in any system's spelling, but not dots within a name."""
    assert all(map(leads_out, ["/a", "\\\\a", "c:a", "../a", "a/../b", "a\\..\\b", ".."]))
    assert not any(map(leads_out, ["", "a", "a..b", "...", "sub/a", "./a"]))


def test_formats_by_name() -> None:
    """Weights that vLLM would load are told from training state and from foreign formats."""
    assert is_pickle("pytorch_model.bin")
    assert not is_pickle("training_args.bin")
    assert not is_pickle("README.md")
    assert foreign_format("weights.NPZ") == "MLX (npz)"
    assert foreign_format("tokenizer.model") == ""


@pytest.mark.parametrize("method", DECLARATIONS)
@pytest.mark.parametrize(
    "kind", [DefectKind.NOT_ANSWERED, DefectKind.NOT_FETCHED, DefectKind.UNREADABLE]
)
def test_unread_file_is_no_missing_tensor(method: str, kind: DefectKind) -> None:
    """While one weight file of a good model is unread, nothing is said to be missing."""
    config, tensors = healthy(method)
    whole = {f.rule for f in check_checkpoint(checkpoint_of(config, tensors), [Target()]).findings}
    files = model_files(config, tensors, files=4)
    weights = {n: c for n, c in files.items() if not isinstance(c, bytes)}
    index = files["model.safetensors.index.json"]
    assert isinstance(index, bytes)
    for unread in weights:
        raw = RawCheckpoint(
            "model",
            configs=(RawDocument("config.json", json.dumps(config).encode()),),
            index=RawDocument("model.safetensors.index.json", index),
            files=tuple(
                RawFile(n, c.size, Defect(kind, "is not here") if n == unread else c.head[8:])
                for n, c in weights.items()
            ),
        )
        report = check_checkpoint(assemble(raw), [Target()])
        rules = {f.rule for f in report.findings}
        assert "QG209" in rules
        assert rules - whole == {"QG209"}
