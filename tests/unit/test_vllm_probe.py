"""From the sizes that vLLM built to the keys that they are made of."""

from __future__ import annotations

import copy
from typing import Any

from quantgate.vllm.facts import facts
from tools.vllm_probe.configs import VALUES, probing, switches
from tools.vllm_probe.solve import expression, solve

GIVEN = [
    {"hidden_size": 336, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 40},
    {"hidden_size": 480, "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 24},
]


def test_the_simplest_expression_wins() -> None:
    """A key alone before a product, a product before a quotient."""
    assert expression([336, 480], GIVEN) == "hidden_size"
    assert expression([240, 288], GIVEN) == "head_dim*num_attention_heads"
    assert expression([112, 160], GIVEN) == "hidden_size//num_attention_heads*num_key_value_heads"
    assert expression([480, 576], GIVEN) == "2*head_dim*num_attention_heads"


def test_a_coincidence_of_one_build_is_no_expression() -> None:
    """Both builds must agree."""
    assert expression([336, 481], GIVEN) is None


def test_a_config_holds_every_kind_of_layer() -> None:
    """The lists with an entry per layer are cut without losing a kind."""
    default: dict[str, Any] = {
        "hidden_size": 1,
        "num_hidden_layers": 30,
        "layer_types": ["linear"] * 29 + ["full"],
        "use_bias": False,
        "first_k_dense_replace": 3,
        "mlp_only_layers": [],
    }
    config, given = probing("AnyForCausalLM", copy.deepcopy(default), VALUES[0])
    assert len(config["layer_types"]) == config["num_hidden_layers"] == 12
    assert set(config["layer_types"]) == {"linear", "full"}
    assert config["mlp_only_layers"] == [1]
    assert given["hidden_size"] == 336
    assert {(key, other) for _, key, _, other in switches(config)} == {
        ("use_bias", True),
        ("first_k_dense_replace", 2),
    }


def _build(given: dict[str, int], *, bias: bool = False, norm: bool = True) -> dict[str, Any]:
    q = given["num_attention_heads"] * given["head_dim"]
    kv = given["num_key_value_heads"] * given["head_dim"]
    hidden = given["hidden_size"]
    modules: dict[str, Any] = {}
    for i in range(2):
        layer = f"model.layers.{i}"
        modules[f"{layer}.self_attn.qkv_proj"] = {
            "kind": "linear",
            "out": [q, kv, kv],
            "in": hidden,
            "bias": bias,
        }
        if norm:
            modules[f"{layer}.norm"] = {"kind": "other", "shapes": {"weight": [hidden]}}
    return modules


def test_shards_conditions_and_biases_are_told_apart() -> None:
    """A bias hangs on its key by name, a module on the value of the key that removes it."""
    row = {
        "builds": [{"given": g, "modules": _build(g)} for g in GIVEN],
        "defaults": [],
        "switches": {"attention_bias": False, "use_norm": True, "other": False},
        "switched": [
            ["attention_bias", _build(GIVEN[0], bias=True)],
            ["use_norm", _build(GIVEN[0], norm=False)],
            ["other", None],
        ],
    }
    architecture = facts("0.32.0").architecture("LlamaForCausalLM")
    assert architecture is not None
    record = solve(row, architecture)
    assert record is not None
    assert record["layer"]["self_attn.k_proj"] == {
        "size": ["head_dim*num_key_value_heads", "hidden_size"],
        "bias": "attention_bias",
        "in": "every",
    }
    assert record["layer"]["norm"] == {
        "shape": ["hidden_size"],
        "in": "every",
        "when": {"use_norm": True},
    }
