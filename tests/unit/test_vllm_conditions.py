"""Deciding from config.json what vLLM's source leaves to it, and never guessing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgate.vllm.conditions import Decision, UndecidedError, decide, settle
from quantgate.vllm.facts import Architecture, facts
from quantgate.vllm.packing import built_mappers, effective_packed

CONFIG = {"config": "vllm_config.model_config.hf_config"}
TEXT = {"config": "vllm_config.model_config.hf_text_config"}
QKV = ("q_proj", "k_proj", "v_proj")
GATE_UP = ("gate_proj", "up_proj")
FUSED_A = ("q_a_proj", "kv_a_proj_with_mqa")
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 1536,
}


def architecture(name: str, release: str = "0.33.0") -> Architecture:
    found = facts(release).architecture(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("config.a == 1", True),
        ("config.a is not None and config.b", False),
        ("not config.b or config.gone", True),
        ("hasattr(config, 'a') and config.a > 0", True),
        ("all((dim == 0 for dim in (config.b, 0)))", True),
        ("any(x == 'full' for x in config.kinds)", True),
        ("len(config.kinds) - 1 == 1", True),
        ("'full' in getattr(config, 'kinds', [])", True),
        ("config.nested.deep == 'x'", True),
        ("(n := config.a) and n < 2", True),
        ("config.gone", None),
        ("config.a.b", None),
        ("open('/etc/passwd')", None),
        ("config.__class__", None),
        ("config.kinds[0].upper() == 'FULL'", None),
        ("2 ** config.a", None),
        ("config.a +", None),
        ("[config.a for _ in range(10**9)]", None),
    ],
)
def test_conditions(when: str, holds: bool | None) -> None:
    """Known constructs are decided, everything else is undecided and says why."""
    config = {"a": 1, "b": 0, "kinds": ["full", "sliding"], "nested": {"deep": "x"}}
    decision = decide([when], CONFIG, config)
    assert decision.holds is holds
    assert bool(decision.reason) == (holds is None)


def test_missing_keys_are_assumptions() -> None:
    """A key that only a default stood in for is told, since the config class may have its own."""
    decision = decide(["getattr(config, 'layers', [])"], CONFIG, {})
    assert decision == Decision(holds=False, assumed=("layers",))


def test_one_false_condition_decides() -> None:
    """Conditions are joined by `and`: one that fails settles it, whatever the others are."""
    assert decide(["config.gone", "config.a"], CONFIG, {"a": 0}).holds is False


def test_definitions_that_need_themselves_are_undecided() -> None:
    """A cycle in the definitions ends."""
    assert decide(["x"], {"x": "y", "y": "x"}, {}).holds is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


@settings(deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys((*DEEPSEEK, "mlp_only_layers", "text_config"), JSON)))
def test_no_config_makes_it_raise(config: dict[str, Any]) -> None:
    """Whatever types a hostile config has, there is an answer."""
    for name in ("DeepseekV3ForCausalLM", "Qwen3MoeForCausalLM", "Gemma4ForCausalLM"):
        assert effective_packed(architecture(name), config).packed
        built_mappers(architecture(name), config)


def test_deepseek_with_q_lora_rank() -> None:
    """Latent attention fuses the two a-projections, and there is no qkv."""
    found = effective_packed(architecture("DeepseekV3ForCausalLM"), DEEPSEEK)
    assert found.packed == {"gate_up_proj": GATE_UP, "fused_qkv_a_proj": FUSED_A}
    assert found.certain


def test_deepseek_without_q_lora_rank() -> None:
    """With q_lora_rank null, or left out, q is projected directly; left out is an assumption."""
    model = architecture("DeepseekV3ForCausalLM")
    null = effective_packed(model, DEEPSEEK | {"q_lora_rank": None})
    absent = effective_packed(model, {k: v for k, v in DEEPSEEK.items() if k != "q_lora_rank"})
    assert null.packed == absent.packed == {"gate_up_proj": GATE_UP}
    assert null.certain
    assert absent.assumed == ("q_lora_rank",)


def test_deepseek_with_plain_attention() -> None:
    """Without latent heads the model has a fused qkv."""
    plain = {"model_type": "deepseek", "q_lora_rank": None}
    found = effective_packed(architecture("DeepseekForCausalLM"), plain)
    assert found.packed == {"gate_up_proj": GATE_UP, "qkv_proj": QKV}


def test_qwen3_moe_with_dense_layers() -> None:
    """The entry for dense layers counts where the config holds the class's own dict.

    From the release on whose class has SupportsQuant the config holds a copy made earlier.
    """
    config = {"mlp_only_layers": [0]}
    old, new = architecture("Qwen3MoeForCausalLM", "0.19.1"), architecture("Qwen3MoeForCausalLM")
    assert (old.supports_quant, new.supports_quant) == (False, True)
    assert effective_packed(old, config).packed == {"qkv_proj": QKV, "gate_up_proj": GATE_UP}
    found = effective_packed(new, config)
    assert (found.packed, found.late) == ({"qkv_proj": QKV}, {"gate_up_proj": GATE_UP})


def test_qwen3_moe_without_dense_layers() -> None:
    """Only experts: no entry for gate and up."""
    found = effective_packed(architecture("Qwen3MoeForCausalLM", "0.19.1"), {"mlp_only_layers": []})
    assert found.packed == {"qkv_proj": QKV}
    assert found.certain


def test_an_inner_model_brings_its_mapping() -> None:
    """A class without a mapping of its own has that of the model within it."""
    outer, inner = architecture("Qwen2VLForConditionalGeneration"), architecture("Qwen2ForCausalLM")
    assert not outer.packed
    found = effective_packed(outer, {}, [(inner, {})])
    assert found.packed == {"qkv_proj": QKV, "gate_up_proj": GATE_UP}


GEMMA = {
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 1,
    "attention_k_eq_v": True,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
}


@pytest.mark.parametrize("config", [GEMMA, {"text_config": GEMMA}])
def test_gemma4_loads_k_as_v(config: dict[str, Any]) -> None:
    """A full-attention layer's k_proj is loaded as k and as v; a KV-shared layer's is dropped."""
    (built,) = built_mappers(architecture("Gemma4ForCausalLM"), config)
    assert built.tables is not None
    assert (built.part, built.assumed) == ("gemma4:Gemma4Model", ())
    stacked, dropped = built.tables["stacked"], built.tables["substr"]
    fused = "layers.{}.self_attn.qkv_proj."
    assert stacked["layers.1.self_attn.k_proj."] == (fused.format(1), ["k", "v"])
    assert stacked["layers.2.self_attn.k_proj."] == (fused.format(2), "k")
    assert "layers.1.self_attn.v_proj." not in stacked
    assert "layers.3.self_attn.k_proj." not in stacked
    assert dropped["layers.3.self_attn.k_proj."] is None


def test_gemma4_with_an_incomplete_config_is_open() -> None:
    """Without the kinds of its layers nothing is said."""
    (built,) = built_mappers(architecture("Gemma4ForCausalLM"), {"attention_k_eq_v": True})
    assert built.tables is None
    assert "num_hidden_layers" in built.reason


def test_deepseek_v4_scales_follow_the_expert_dtype() -> None:
    """Experts that are not FP4 have their scales under the name that the other layers use."""
    model = architecture("DeepseekV4ForCausalLM")
    assert model.mapper["regex"][r"(\.experts\.\d+\.w[123])\.scale$"] == r"\1.weight_scale"
    assert built_mappers(model, {"expert_dtype": "fp4"}) == ()
    (built,) = built_mappers(model, {"expert_dtype": "fp8"})
    assert built.tables is not None
    assert built.tables["regex"][r"\.scale$"] == ".weight_scale_inv"
    assert r"(\.experts\.\d+\.w[123])\.scale$" not in built.tables["regex"]


def test_layers_for_multi_token_prediction_are_dropped() -> None:
    """Glm4 drops the layers after its last one."""
    config = {"num_hidden_layers": 40, "num_nextn_predict_layers": 2}
    (built,) = built_mappers(architecture("Glm4ForCausalLM"), config)
    assert built.tables == {"prefix": {"model.layers.40.": None, "model.layers.41.": None}}


def test_settle_refuses_what_it_cannot_compute() -> None:
    """An open part that rests on something else than the config raises, and nothing is made up."""
    with pytest.raises(UndecidedError):
        settle({"prefix": {"$expr": "drops"}}, {"drops": "dict[str, None]()"}, {})
