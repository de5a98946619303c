"""Edits of config.json: proposed where they cure, withheld where they do not."""

from pathlib import Path
from typing import Any

import pytest

from quantgate.checkpoint.sources import open_checkpoint
from quantgate.model import Model
from quantgate.patching import MAX_IGNORED, cured, ignore_patch, patched, scheme_patch
from quantgate.quantization.difference import Kind
from tests.support.build import healthy, write_checkpoint
from tests.support.cases import merge


def model_of(
    folder: Path, method: str, change: dict[str, Any], tensors: dict[str, str | None] | None = None
) -> Model:
    """A healthy checkpoint of this method with a changed block and changed tensors."""
    config, stored = healthy(method)
    merge(config, {"quantization_config": change})
    merge(stored, dict(tensors or {}))
    path = write_checkpoint(folder / "model", config, {"model.safetensors": stored})
    return Model(open_checkpoint(str(path)))


def bits_patch(model: Model) -> tuple[dict[str, Any], ...]:
    """The edit that writes the observed bits."""
    return scheme_patch(model, Kind.BITS, lambda d: {"bits": d.value})


def test_patch_cures_the_model(tmp_path: Path) -> None:
    """With the operations applied, no difference is left."""
    model = model_of(tmp_path, "gptq", {"bits": 8})

    after = patched(model, bits_patch(model))

    assert model.differences
    assert after is not None
    assert not after.differences


def test_patch_writes_to_the_spelling_that_the_block_uses(tmp_path: Path) -> None:
    """AWQ blocks with `w_bit` are edited at `w_bit`."""
    model = model_of(tmp_path, "awq", {"bits": None, "w_bit": 8})

    assert [op["path"] for op in bits_patch(model)] == ["/quantization_config/w_bit"]


def test_no_patch_where_other_modules_need_the_old_value(tmp_path: Path) -> None:
    """One damaged module does not change the key that governs all."""
    wide = "model.layers.0.mlp.up_proj"
    model = model_of(
        tmp_path,
        "gptq",
        {},
        {
            f"{wide}.qweight": "I32[64,512]",
            f"{wide}.qzeros": "I32[2,128]",
            f"{wide}.g_idx": "I32[256]",
        },
    )

    assert Kind.BITS in model.differences
    assert bits_patch(model) == ()


def test_no_patch_into_a_value_that_vllm_refuses(tmp_path: Path) -> None:
    """GPTQ with 2 bits is refused at the config, so the edit is not proposed."""
    model = model_of(tmp_path, "gptq", {"bits": 4})
    two_bits = model.declaration.patch("bits", 2) if model.declaration else ()

    assert two_bits
    assert cured(model, two_bits, Kind.BITS) == ()


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/quantization_config/absent", "value": 1},
        {"op": "remove", "path": "/absent"},
        {"op": "add", "path": "/quantization_config/bits/-", "value": 1},
        {"op": "move", "path": "/quantization_config/bits", "from": "/a"},
    ],
)
def test_operation_that_does_not_apply(tmp_path: Path, operation: dict[str, Any]) -> None:
    """An operation on a place that does not exist gives no model."""
    assert patched(model_of(tmp_path, "gptq", {}), (operation,)) is None


@pytest.mark.parametrize("layers", [2, MAX_IGNORED + 1])
def test_ignore_list_grows_by_few_names_only(tmp_path: Path, layers: int) -> None:
    """More names than a person reads are left to a pattern."""
    tensors: dict[str, str | None] = {
        f"model.layers.{i + 2}.mlp.down_proj.weight": "BF16[256,512]" for i in range(layers)
    }
    model = model_of(tmp_path, "pack", {}, tensors)

    assert len(ignore_patch(model)) == (layers if layers <= MAX_IGNORED else 0)


def test_model_is_left_as_it_was(tmp_path: Path) -> None:
    """Trying an edit does not change the config that was read."""
    model = model_of(tmp_path, "gptq", {"bits": 8})

    bits_patch(model)

    assert model.checkpoint.config["quantization_config"]["bits"] == 8
