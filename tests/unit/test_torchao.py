"""torchao declarations, the metadata of its files, and how its lists are matched."""

import copy
from typing import Any

import pytest

from quantgate.quantization.torchao_metadata import losses, read_metadata
from quantgate.vllm.dialect import names_component, names_run
from tests.support.build import healthy
from tests.support.memory import model_of

EIGHT = {"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {}}
FLOAT = {"_type": "Float8WeightOnlyConfig", "_version": 2, "_data": {}}


def schemes(table: dict[str, Any], target: str = "") -> dict[str, str]:
    """Last name of a module of layer 0 → its scheme in words, for a config per module."""
    config, tensors = healthy("torchao-int8")
    block = config["quantization_config"]
    block["quant_type"]["default"] = {
        "_type": "FqnToConfig",
        "_version": 1,
        "_data": {"module_fqn_to_config": copy.deepcopy(table)},
    }
    model = model_of(config, tensors, target)
    return {
        layer.prefix.rpartition(".")[2]: str(model.decisions[layer.prefix].scheme or "dense")
        for layer in model.layers
        if ".layers.0." in layer.prefix
    }


def test_a_config_per_module() -> None:
    """An exact name comes before the patterns, those before the default, and null is dense."""
    found = schemes(
        {
            "model.layers.0.mlp.down_proj": None,
            "re:.*o_proj": FLOAT,
            "_default": EIGHT,
        }
    )

    assert found["down_proj"] == "dense"
    assert found["o_proj"] == "float8 channel"
    assert found["qkv_proj"] == "int8 channel"


def test_names_of_shards_are_not_looked_up() -> None:
    """vLLM asks for its own fused layer, so the entry of a shard never counts."""
    found = schemes({"re:.*q_proj": FLOAT, "_default": EIGHT})

    assert found["qkv_proj"] == "int8 channel"


def test_patterns_must_match_to_the_end() -> None:
    """A pattern that only begins the name does not count."""
    found = schemes({"re:model.layers.0.mlp": FLOAT, "_default": EIGHT})

    assert found["down_proj"] == "int8 channel"


def test_the_oldest_release_knows_no_patterns() -> None:
    """0.10.2 looks a name up as it stands, or takes the default."""
    found = schemes({"re:.*o_proj": FLOAT, "_default": EIGHT}, "vllm=0.10.2")

    assert found["o_proj"] == "int8 channel"


def test_without_a_default_the_rest_is_dense() -> None:
    """A Linear that nothing names is left alone."""
    found = schemes({"re:.*o_proj": EIGHT})

    assert found == {
        "qkv_proj": "dense",
        "o_proj": "int8 channel",
        "gate_up_proj": "dense",
        "down_proj": "dense",
    }


@pytest.mark.parametrize(
    ("entry", "run", "component"),
    [
        ("o_proj", True, True),
        ("layers.1", True, False),
        ("model.layers.1", True, True),
        ("layers", True, True),
        ("_proj", False, False),
        ("model.layers.1.self_attn.o_proj", True, True),
        ("model.layers.11", False, False),
    ],
)
def test_parts_of_a_name(entry: str, run: bool, component: bool) -> None:
    """torchao takes any run of components, bitsandbytes one component or a leading path."""
    name = "model.layers.1.self_attn.o_proj"

    assert names_run(entry, name) is run
    assert names_component(entry, name) is component


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"format": "pt"},
        {"tensor_names": ""},
        {"tensor_names": "5"},
        {"tensor_names": "[1]"},
        {"tensor_names": "[" * 5000},
        {"tensor_names": '["a"]'},
        {"tensor_names": '["a"]', "a": "["},
        {"tensor_names": '["a"]', "a": "[]"},
        {"tensor_names": '["a"]', "a": "{}"},
        {"tensor_names": '["a"]', "a": '{"_type": []}'},
    ],
)
def test_metadata_that_vllm_stops_at(metadata: dict[str, str]) -> None:
    """Whatever stands there, the reason is told and nothing is raised."""
    assert read_metadata(metadata).error


def test_a_part_in_another_file_is_no_loss() -> None:
    """The parts of all files count together, and a plain tensor has none."""
    entry = (
        '{"_type": "Int8Tensor", "_data": {"block_size": "x"}, '
        '"_tensor_data_names": ["qdata", "scale"]}'
    )
    texts = {"tensor_names": '["m.weight", "n"]', "m.weight": entry, "n": '{"_type": "Tensor"}'}
    entries = read_metadata(texts).entries

    assert losses(entries, ["m._weight_scale", "n", "m._weight_qdata"]) == []
    assert [x.tensor for x in losses(entries, ["m._weight_scale", "n"])] == ["m.weight"]
    assert entries["m.weight"].block == ()
