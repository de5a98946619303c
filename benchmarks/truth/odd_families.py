"""Toy models whose layers are not all of the usual build: latent attention, state spaces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.truth.usual_families import (
    EXPERT_INNER,
    EXPERTS,
    HEADS,
    HIDDEN,
    INNER,
    Family,
    decoder,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Renamed = Callable[[str], str | None]

LATENT, LATENT_HEAD, ROPE = 512, 128, 64
GROUPS, CONV = 1, 4
MAMBA = 2 * HIDDEN
MAMBA_HEADS = 16


def _rebuilt(family: Family, name: Renamed, config: dict[str, Any]) -> Family:
    """The family with other names (None: left out) and other keys."""

    def renamed(held: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
        return {new: shape for old, shape in held.items() if (new := name(old)) is not None}

    return replace(
        family,
        config={**family.config, **config},
        linears=renamed(family.linears),
        routers=renamed(family.routers),
        dense=renamed(family.dense),
    )


def _latent(name: str, architecture: str, q_rank: int | None, **more: Any) -> Family:
    """A mixture of DeepSeek's: its first layer dense, keys and values from a latent vector."""
    usual = decoder(
        name,
        architecture,
        experts="mlp",
        dense_layers=1,
        shared="shared_experts",
        n_routed_experts=EXPERTS,
        n_shared_experts=1,
        num_experts_per_tok=2,
        moe_intermediate_size=EXPERT_INNER,
        first_k_dense_replace=1,
        moe_layer_freq=1,
        routed_scaling_factor=1.0,
        kv_lora_rank=LATENT,
        q_lora_rank=q_rank,
        qk_nope_head_dim=LATENT_HEAD,
        qk_rope_head_dim=ROPE,
        v_head_dim=LATENT_HEAD,
        num_key_value_heads=HEADS,
        **more,
    )
    family = _rebuilt(
        usual, lambda n: None if n.endswith(("q_proj", "k_proj", "v_proj")) else n, {}
    )
    for i in range(2):
        attention = f"model.layers.{i}.self_attn"
        rows = HEADS * (LATENT_HEAD + ROPE)
        if q_rank is None:
            family.linears[f"{attention}.q_proj"] = (rows, HIDDEN)
        else:
            family.linears[f"{attention}.q_a_proj"] = (q_rank, HIDDEN)
            family.dense[f"{attention}.q_a_layernorm.weight"] = (q_rank,)
            family.linears[f"{attention}.q_b_proj"] = (rows, q_rank)
        family.linears[f"{attention}.kv_a_proj_with_mqa"] = (LATENT + ROPE, HIDDEN)
        family.dense[f"{attention}.kv_a_layernorm.weight"] = (LATENT,)
        family.linears[f"{attention}.kv_b_proj"] = (HEADS * 2 * LATENT_HEAD, LATENT)
        family.linears[f"{attention}.o_proj"] = (HIDDEN, HEADS * LATENT_HEAD)
    return family


def _falcon_h1() -> Family:
    """Attention and a state space beside each other in every layer."""
    usual = decoder(
        "falcon_h1",
        "FalconH1ForCausalLM",
        norms=("input_layernorm", "pre_ff_layernorm"),
        mlp="feed_forward",
        mamba_d_ssm=MAMBA,
        mamba_n_heads=MAMBA_HEADS,
        mamba_d_head=MAMBA // MAMBA_HEADS,
        mamba_n_groups=GROUPS,
        mamba_d_state=256,
        mamba_d_conv=CONV,
    )
    family = _rebuilt(usual, _final_norm("model.final_layernorm"), {})
    channels = MAMBA + 2 * GROUPS * 256
    for i in range(2):
        _mamba2(family, f"model.layers.{i}.mamba", channels)
    return family


def _mamba2(family: Family, path: str, channels: int) -> None:
    family.linears[f"{path}.in_proj"] = (MAMBA + channels + MAMBA_HEADS, HIDDEN)
    family.linears[f"{path}.out_proj"] = (HIDDEN, MAMBA)
    family.dense[f"{path}.conv1d.weight"] = (channels, 1, CONV)
    family.dense[f"{path}.conv1d.bias"] = (channels,)
    for leaf in ("A_log", "D", "dt_bias"):
        family.dense[f"{path}.{leaf}"] = (MAMBA_HEADS,)


def _final_norm(name: str) -> Renamed:
    return lambda n: n.replace("model.norm", name) if n.startswith("model.norm") else n


def _nemotron_h() -> Family:
    """One state space, one attention, one MLP, each a layer of its own."""
    usual = decoder("nemotron_h", "NemotronHForCausalLM")
    kept = {n: s for n, s in usual.dense.items() if n == "lm_head.weight"}
    state = 128
    config = {
        **usual.config,
        "num_hidden_layers": 3,
        "hybrid_override_pattern": "M*-",
        "layer_norm_epsilon": 1e-5,
        "mlp_hidden_act": "relu2",
        "mamba_num_heads": MAMBA_HEADS,
        "mamba_head_dim": MAMBA // MAMBA_HEADS,
        "n_groups": GROUPS,
        "ssm_state_size": state,
        "conv_kernel": CONV,
        "expand": 2,
        "mamba_hidden_act": "silu",
        "use_bias": False,
        "use_conv_bias": True,
        "mlp_bias": False,
        "attention_bias": False,
    }
    attention = "backbone.layers.1.mixer"
    family = Family(
        "nemotron_h",
        config,
        linears={
            **{
                f"{attention}.{n.rpartition('.')[2]}": s
                for n, s in usual.linears.items()
                if ".0.self_attn." in n
            },
            "backbone.layers.2.mixer.up_proj": (INNER, HIDDEN),
            "backbone.layers.2.mixer.down_proj": (HIDDEN, INNER),
        },
        dense={
            **kept,
            "backbone.embeddings.weight": usual.dense["model.embed_tokens.weight"],
            "backbone.norm_f.weight": (HIDDEN,),
            **{f"backbone.layers.{i}.norm.weight": (HIDDEN,) for i in range(3)},
            "backbone.layers.0.mixer.norm.weight": (MAMBA,),
        },
    )
    _mamba2(family, "backbone.layers.0.mixer", MAMBA + 2 * GROUPS * state)
    return family


ODD: tuple[Family, ...] = (
    _latent(
        "deepseek_v2", "DeepseekV2ForCausalLM", None, topk_method="greedy", n_group=1, topk_group=1
    ),
    _latent(
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        1536,
        topk_method="noaux_tc",
        scoring_func="sigmoid",
        router_bias="gate.e_score_correction_bias",
        n_group=1,
        topk_group=1,
        norm_topk_prob=True,
    ),
    _falcon_h1(),
    _nemotron_h(),
)
