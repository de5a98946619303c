"""What vLLM builds, evaluated for a config."""

from __future__ import annotations

from typing import Any

import pytest

from quantgate.vllm.built import architectures, built_for
from tests.support.build import LLAMA

QWEN3 = {
    **LLAMA,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 2560,
}


def _size(config: dict[str, Any], module: str) -> Any:
    built = built_for(config)
    assert built is not None
    return built.size(module)


def test_a_size_is_what_the_keys_say() -> None:
    """q_proj has a row for every value of every head."""
    assert _size(LLAMA, "model.layers.1.self_attn.q_proj") == (256, 256)
    assert _size(LLAMA, "model.layers.1.self_attn.k_proj") == (128, 256)
    assert _size(LLAMA, "model.layers.1.self_attn.qkv_proj") == (512, 256)
    assert _size(LLAMA, "model.embed_tokens") == (512, 256)


def test_a_key_that_is_missing_has_the_default_of_its_class() -> None:
    """Qwen3 takes 128 values per head, Llama what the hidden size leaves."""
    qwen3 = {k: v for k, v in QWEN3.items() if k != "head_dim"}
    assert _size(qwen3, "model.layers.0.self_attn.q_proj") == (32 * 128, 2560)
    llama = {k: v for k, v in LLAMA.items() if k != "head_dim"} | {"hidden_size": 512}
    assert _size(llama, "model.layers.0.self_attn.q_proj") == (512, 512)


@pytest.mark.parametrize("value", [None, "4096", -1, True, 1 << 40, [1]])
def test_a_value_that_is_no_size_leaves_the_size_open(value: object) -> None:
    """A hostile or broken config gives no size instead of a wrong one."""
    size = _size({**LLAMA, "intermediate_size": value}, "model.layers.0.mlp.up_proj")
    assert size == (None, 256)


def test_an_entry_holds_only_for_the_values_it_was_found_with() -> None:
    """What a linear attention's norm is as long as is not known for another head than the one."""
    config = {**LLAMA, "architectures": ["Qwen3NextForCausalLM"]}
    for head, known in ((128, True), (64, False)):
        built = built_for({**config, "linear_value_head_dim": head})
        assert built is not None
        assert (built.entry("model.layers.0.linear_attn.norm") is not None) is known


@pytest.mark.parametrize("step", [1, 2])
def test_a_mixture_has_plain_layers_of_a_width_of_their_own(step: int) -> None:
    """`mlp_only_layers` and `decoder_sparse_step` say which, and the files show it."""
    sizes = {"intermediate_size": 1024, "moe_intermediate_size": 256, "decoder_sparse_step": step}
    config = {**LLAMA, **sizes, "architectures": ["Qwen2MoeForCausalLM"]}
    assert _size(config, "model.layers.0.mlp.up_proj") == (1024, 256)
    assert _size(config, "model.layers.1.mlp.experts.0.up_proj") == (256, 256)


def test_modules_beside_the_layers_are_known_by_name() -> None:
    """What lies in a layer, or elsewhere, is not asked."""
    built = built_for(LLAMA)
    assert built is not None
    assert built.root == "model"
    assert built.has_beside_layers("model.norm") is True
    assert built.has_beside_layers("model.final_layernorm") is False
    assert built.has_beside_layers("model.layers.0.input_layernorm") is None
    assert built.has_beside_layers("norm") is None


def test_experts_share_one_entry() -> None:
    """The number of an expert does not matter."""
    config = {**QWEN3, "architectures": ["Qwen3MoeForCausalLM"], "moe_intermediate_size": 768}
    for expert in (0, 127):
        module = f"model.layers.0.mlp.experts.{expert}.down_proj"
        assert _size(config, module) == (2560, 768)


@pytest.mark.parametrize("key", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_the_number_of_experts_has_several_names(key: str) -> None:
    """A config class reads one of these names for another."""
    config = {**QWEN3, "architectures": ["Qwen3MoeForCausalLM"], key: 96}
    assert _size(config, "model.layers.0.mlp.gate") == (96, 2560)


def test_a_size_of_each_layer_leaves_the_size_open() -> None:
    """A list of heads by layer outranks the one number, which says nothing then."""
    config = {**LLAMA, "num_attention_heads_per_layer": [4, 8]}
    assert _size(config, "model.layers.0.self_attn.q_proj") == (None, 256)


def _wanted(config: dict[str, Any]) -> dict[str, str]:
    built = built_for(config)
    assert built is not None
    return dict(built.wanted())


def test_what_lies_beside_experts_is_wanted_with_them() -> None:
    """A layer without experts (`mlp_only_layers`) needs no router."""
    wanted = _wanted({**QWEN3, "architectures": ["Qwen3MoeForCausalLM"]})
    assert wanted["mlp.gate"] == "sparse"
    assert wanted["self_attn.q_norm"] == "every"


@pytest.mark.parametrize(
    ("architecture", "key", "value"),
    [
        ("Ernie4_5_MoeForCausalLM", "moe_num_shared_experts", 0),
        ("DeepseekV3ForCausalLM", "n_shared_experts", None),
        ("Qwen2MoeForCausalLM", "shared_expert_intermediate_size", 0),
    ],
)
def test_shared_experts_that_the_config_denies_are_not_wanted(
    architecture: str, key: str, value: object
) -> None:
    """Neither they nor their gate are built where the config has none, as ERNIE 4.5 300B."""
    config = {**LLAMA, "architectures": [architecture], "moe_intermediate_size": 64}
    assert any("shared" in path for path in _wanted({**config, key: 1}))
    assert not any("shared" in path for path in _wanted({**config, key: value}))


def test_a_head_of_its_own_is_known_by_class() -> None:
    """Gemma 2 never has one, Llama has one unless told otherwise."""
    gemma, llama = built_for({**LLAMA, "architectures": ["Gemma2ForCausalLM"]}), built_for(LLAMA)
    assert gemma is not None
    assert llama is not None
    assert (gemma.always_tied, llama.always_tied) == (True, False)
    assert (gemma.tied, llama.tied) == (True, False)


@pytest.mark.parametrize("names", [None, [], [3], ["NobodyForCausalLM"], "LlamaForCausalLM", {}])
def test_an_architecture_that_is_not_there_has_no_facts(names: object) -> None:
    """Whatever stands in `architectures`."""
    assert built_for({**LLAMA, "architectures": names}) is None


@pytest.mark.parametrize("name", architectures())
def test_every_record_can_be_evaluated(name: str) -> None:
    """Each expression of each record gives a number or nothing."""
    built = built_for({**LLAMA, "architectures": [name]})
    assert built is not None
    for table in ("layer", "outer"):
        for path, entry in built.record[table].items():
            assert set(entry) <= {"size", "shape", "bias", "dense", "in", "when"}, path
            for part in [*entry.get("size", []), *entry.get("shape", [])]:
                number = built._number(part)
                assert number is None or number > 0
    assert all(where in {"every", "sparse", "dense"} for _, where in built.wanted())
