"""`quantgate fix` end to end: what it proposes, what it writes, and what it leaves alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from quantgate.cli import main
from tests.support.build import Tensors, healthy, write_checkpoint
from tests.support.cases import merge
from tests.support.declarations import DECLARATIONS

Q_PROJ = "model.layers.0.self_attn.q_proj"


def model(
    folder: Path,
    method: str,
    change: dict[str, Any] | None = None,
    tensors: dict[str, Any] | None = None,
    sides: dict[str, Any] | None = None,
) -> Path:
    """A model folder with an indented config.json, as transformers writes it."""
    config, stored = healthy(method)
    merge(config, change or {})
    merge(stored, tensors or {})
    path = write_checkpoint(folder / "model", config, {"model.safetensors": stored}, sides)
    (path / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return path


def regrouped(tensors: Tensors) -> Tensors:
    """GPTQ tensors with twice as many groups."""
    return {
        name: text.replace("I32[2,", "I32[4,").replace("F16[2,", "F16[4,")
        if name.endswith(("qzeros", "scales")) and ".down_proj" not in name
        else text.replace("I32[4,", "I32[8,").replace("F16[4,", "F16[8,")
        if name.endswith(("qzeros", "scales"))
        else text
        for name, text in tensors.items()
    }


LAYER_0 = tuple(f"model.layers.0.self_attn.{p}_proj" for p in "qkv")
DENSE_QKV = {
    f"{name}.{leaf}": (f"BF16[{n},256]" if leaf == "weight" else None)
    for name, n in zip(LAYER_0, (256, 128, 128), strict=True)
    for leaf in ("weight_packed", "weight_scale", "weight_shape", "weight")
}
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "gptq bits": ("gptq", {"quantization_config": {"bits": 8}}, {}, "QG401"),
    "awq bits": ("awq", {"quantization_config": {"bits": 8}}, {}, "QG401"),
    "compressed-tensors bits": (
        "pack",
        {"quantization_config": {"config_groups": {"group_0": {"weights": {"num_bits": 8}}}}},
        {},
        "QG401",
    ),
    "group size": ("gptq", {}, regrouped(healthy("gptq")[1]), "QG402"),
    "missing shard": (
        "pack",
        {"quantization_config": {"ignore": ["lm_head", *LAYER_0[:2]]}},
        DENSE_QKV,
        "QG501",
    ),
    "dense layer": ("pack", {}, DENSE_QKV, "QG416"),
    "static inputs": (
        "fp8-static",
        {},
        {n: None for n in healthy("fp8-static")[1] if n.endswith("input_scale")},
        "QG410",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_edit_cures(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shown without --write, applied with it; then the check passes and nothing is left to fix."""
    method, change, tensors, rule = KINDS[kind]
    path = model(tmp_path, method, change, tensors)
    before = (path / "config.json").read_bytes()

    assert main(["check", str(path)]) == 1
    capsys.readouterr()
    assert main(["fix", str(path)]) == 0
    shown = capsys.readouterr().out
    assert f"error[{rule}]" in shown.partition("cured by this change:")[2]
    assert shown.startswith("--- config.json\n+++ config.json (fixed)\n@@ ")
    assert (path / "config.json").read_bytes() == before

    assert main(["fix", str(path), "--write"]) == 0
    assert (path / "config.json.bak").read_bytes() == before
    assert main(["check", str(path), "--fail-on", "warning"]) == 0
    capsys.readouterr()
    assert main(["fix", str(path), "--write"]) == 0
    assert capsys.readouterr().out.startswith("Nothing to fix")
    assert not (path / "config.json.bak.1").exists()


def test_missing_block_comes_from_the_side_file(tmp_path: Path) -> None:
    """The block of quantize_config.json is put into config.json, behind what is there."""
    block = {k: v for k, v in DECLARATIONS["gptq"].items() if k != "quant_method"}
    path = model(
        tmp_path, "gptq", {"quantization_config": None}, sides={"quantize_config.json": block}
    )

    assert main(["fix", str(path), "--write"]) == 0

    after = json.loads((path / "config.json").read_text())
    assert list(after)[-1] == "quantization_config"
    assert after["quantization_config"] == {"quant_method": "gptq", **block}


def test_fault_behind_a_fault_is_fixed_too(tmp_path: Path) -> None:
    """A missing block that also has the wrong bits takes two rounds and one run."""
    block = {**DECLARATIONS["gptq"], "bits": 8}
    path = model(
        tmp_path, "gptq", {"quantization_config": None}, sides={"quantize_config.json": block}
    )

    assert main(["fix", str(path), "--write"]) == 0

    assert json.loads((path / "config.json").read_text())["quantization_config"]["bits"] == 4
    assert json.loads((path / "quantize_config.json").read_text())["bits"] == 4


def test_side_file_that_disagrees(tmp_path: Path) -> None:
    """The tensors agree with config.json, so the side file is corrected, under its own key."""
    side = {"w_bit": 8, "group_size": 128}
    path = model(tmp_path, "gptq", sides={"quantize_config.json": json.dumps(side, indent=4)})

    assert main(["fix", str(path), "--write"]) == 0

    assert (path / "quantize_config.json").read_text() == json.dumps(
        {"w_bit": 4, "group_size": 128}, indent=4
    )
    assert (path / "quantize_config.json.bak").exists()
    assert not (path / "config.json.bak").exists()


def test_other_method_in_a_side_file_is_left_to_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One word does not turn AWQ's keys into GPTQ's."""
    path = model(tmp_path, "gptq", sides={"quant_config.json": {"quant_method": "awq", "bits": 8}})

    assert main(["fix", str(path), "--write"]) == 0

    assert "warning[QG307]" in capsys.readouterr().out
    assert not (path / "quant_config.json.bak").exists()


def test_what_no_edit_cures_remains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bits are corrected, the lost scale is told with its fix, and the exit code is 1."""
    path = model(
        tmp_path,
        "pack",
        KINDS["compressed-tensors bits"][1],
        {f"{Q_PROJ}.weight_scale": None},
    )

    assert main(["fix", str(path), "--write"]) == 1

    out = capsys.readouterr().out
    remains = out.partition("remains:")[2]
    assert "error[QG406]" in remains
    assert "fix: Export the module again" in remains
    assert "QG401" not in remains


def test_nothing_is_written_that_brings_new_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The block from the side file would be right, and reveal that a scale is missing."""
    path = model(
        tmp_path,
        "gptq",
        {"quantization_config": None},
        {f"{Q_PROJ}.scales": None},
        {"quantize_config.json": DECLARATIONS["gptq"]},
    )
    before = (path / "config.json").read_bytes()

    assert main(["fix", str(path), "--write"]) == 1

    out = capsys.readouterr().out
    assert "would bring errors" in out
    assert "error[QG406]" in out
    assert (path / "config.json").read_bytes() == before
    assert not (path / "config.json.bak").exists()


def test_archive_is_only_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The diff of an archive is shown; writing to it is wrong usage."""
    path = model(tmp_path, "gptq", {"quantization_config": {"bits": 8}})
    archive = str(tmp_path / "model.json.gz")
    main(["pack", str(path), "-o", archive])

    assert main(["fix", archive]) == 0
    assert '+    "bits": 4,' in capsys.readouterr().out
    assert main(["fix", archive, "--write"]) == 2
    assert "name the model's folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[]", 1),
        ('"gptq"', 1),
        ("{", 1),
        ("[" * 200_000, 1),
        ('{"quantization_config": [[]]}', 1),
        (json.dumps({"quantization_config": {**DECLARATIONS["gptq"], "bits": {"a": 1}}}), 1),
        (" " * 33_000_000, 3),
    ],
    ids=["array", "text", "cut", "deep", "list as block", "object as bits", "huge"],
)
def test_hostile_config(
    text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No edit, nothing written, and an exit code that is no pass."""
    path = model(tmp_path, "gptq")
    (path / "config.json").write_text(text)

    assert main(["fix", str(path), "--write"]) == code
    assert "No change" in capsys.readouterr().out
    assert (path / "config.json").read_text() == text


def test_names_in_the_diff_are_inert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A control character beside the change does not reach the terminal."""
    path = model(tmp_path, "gptq", {"quantization_config": {"bits": 8}})
    text = (path / "config.json").read_text()
    (path / "config.json").write_text(text.replace('"bits": 8', '"\u202e::error": 1, "bits": 8'))

    assert main(["fix", str(path)]) == 0
    assert "\u202e" not in capsys.readouterr().out


def test_absent_source(tmp_path: Path) -> None:
    """What cannot be read has exit code 3."""
    assert main(["fix", str(tmp_path / "absent")]) == 3
