"""What may be in weight files that are missing or unread is not called absent."""

from pathlib import Path

import pytest

from quantgate.checkpoint.sources import open_checkpoint
from quantgate.findings import Verdict
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from tests.support.build import healthy, write_checkpoint

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4096\n"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def half(folder: Path, method: str, *, index: bool = True) -> Path:
    """A model in two files, one of which holds the last tensors."""
    config, tensors = healthy(method)
    names = list(tensors)
    cut = names.index("model.layers.1.self_attn.k_proj.qweight") + 1
    parts = {FIRST: names[:cut], SECOND: names[cut:]}
    weight_map = {name: file for file, held in parts.items() for name in held}
    files = {f: {n: tensors[n] for n in held} for f, held in parts.items()}
    sides = {"model.safetensors.index.json": {"weight_map": weight_map}} if index else {}
    return write_checkpoint(folder, config, files, sides)


def rules_of(folder: Path) -> tuple[list[str], Verdict]:
    """The ids of the findings, and the verdict."""
    report = check_checkpoint(open_checkpoint(str(folder)), [Target()])
    return [f.rule for f in report.findings], report.verdict


def test_missing_file_is_the_only_fault(tmp_path: Path) -> None:
    """What the index places in a lost file is told once, by the file."""
    folder = half(tmp_path, "gptq")
    (folder / SECOND).unlink()
    assert rules_of(folder) == (["QG201"], Verdict.FAIL)


@pytest.mark.parametrize("index", [True, False])
def test_pointer_leaves_the_model_unverified(tmp_path: Path, index: bool) -> None:
    """Nobody knows what a file holds that was not fetched: that blocks, and nothing is claimed."""
    folder = half(tmp_path, "gptq", index=index)
    (folder / SECOND).write_text(POINTER)
    assert rules_of(folder) == (["QG209"], Verdict.UNVERIFIED)
