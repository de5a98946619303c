"""Toy models of the usual build: config, linear modules and the tensors that stay dense.

Names and the meaning of the config keys are those of the checkpoints on the Hub; sizes are the
least that every method can quantize (multiples of 128).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

HIDDEN, INNER, VOCAB, LAYERS = 512, 1024, 1024, 2
HEADS, KV_HEADS, HEAD = 8, 4, 64
EXPERTS, EXPERT_INNER = 4, 256


@dataclass(frozen=True)
class Family:
    """A toy model before quantization.

    Attributes:
        config: config.json without a quantization block.
        linears: Module name → (N, K) of what a quantizer takes.
        routers: Module name → (N, K) of linear modules that every quantizer leaves alone.
        dense: Tensor name → shape of all else, in BF16.
    """

    name: str
    config: dict[str, Any]
    linears: dict[str, tuple[int, int]]
    routers: dict[str, tuple[int, int]] = field(default_factory=dict)
    dense: dict[str, tuple[int, ...]] = field(default_factory=dict)


def _config(architecture: str, model_type: str, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "vocab_size": VOCAB,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        **more,
    }


def decoder(
    name: str,
    architecture: str,
    *,
    model_type: str = "",
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm"),
    norm_bias: bool = False,
    head_norms: dict[str, int] | None = None,
    attention: str = "self_attn",
    mlp: str = "mlp",
    gated: bool = True,
    fused: bool = False,
    biased: tuple[str, ...] = (),
    experts: str = "",
    dense_layers: int = 0,
    shared: str = "",
    expert_names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    router: str = "gate",
    router_bias: str = "",
    gates: dict[str, int] | None = None,
    extra: dict[str, tuple[int, ...]] | None = None,
    **more: Any,
) -> Family:
    """A decoder of the usual build; everything that differs is an argument.

    `extra` holds tensors of one layer by their name inside of it; `dense_layers` says how many
    of the first layers of a mixture have a plain MLP; `gates` holds the rows of what is left dense
    beside the router.
    """
    tied = more.get("tie_word_embeddings", False)
    linears: dict[str, tuple[int, int]] = {}
    routers: dict[str, tuple[int, int]] = {}
    dense: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCAB, HIDDEN)}

    def norm(path: str, size: int = HIDDEN) -> None:
        dense[f"{path}.weight"] = (size,)
        if norm_bias:
            dense[f"{path}.bias"] = (size,)

    def gated_mlp(path: str, inner: int, names: tuple[str, str, str]) -> None:
        gate, up, down = names
        if fused:
            linears[f"{path}.gate_up_proj"] = (2 * inner, HIDDEN)
        else:
            if gated:
                linears[f"{path}.{gate}"] = (inner, HIDDEN)
            linears[f"{path}.{up}"] = (inner, HIDDEN)
        linears[f"{path}.{down}"] = (HIDDEN, inner)

    for i in range(LAYERS):
        layer = f"model.layers.{i}"
        for n in norms:
            norm(f"{layer}.{n}")
        for n, size in (head_norms or {}).items():
            dense[f"{layer}.{attention}.{n}.weight"] = (size,)
        rows = {"q_proj": HEADS * HEAD, "k_proj": KV_HEADS * HEAD, "v_proj": KV_HEADS * HEAD}
        if fused:
            rows = {"qkv_proj": sum(rows.values())}
        for n, size in rows.items():
            linears[f"{layer}.{attention}.{n}"] = (size, HIDDEN)
        linears[f"{layer}.{attention}.o_proj"] = (HIDDEN, HEADS * HEAD)
        if experts and i >= dense_layers:
            block = f"{layer}.{experts}"
            routers[f"{block}.{router}"] = (EXPERTS, HIDDEN)
            for n, rows_of_gate in (gates or {}).items():
                routers[f"{layer}.{n}"] = (rows_of_gate, HIDDEN)
            if router_bias:
                dense[f"{block}.{router_bias}"] = (EXPERTS,)
            for e in range(EXPERTS):
                gated_mlp(f"{block}.experts.{e}", EXPERT_INNER, expert_names)
            if shared:
                gated_mlp(f"{block}.{shared}", EXPERT_INNER, ("gate_proj", "up_proj", "down_proj"))
        else:
            gated_mlp(f"{layer}.{mlp}", INNER, ("gate_proj", "up_proj", "down_proj"))
        for n, shape in (extra or {}).items():
            dense[f"{layer}.{n}"] = shape
    norm("model.norm")
    if not tied:
        dense["lm_head.weight"] = (VOCAB, HIDDEN)
    for path, (n, _) in linears.items():
        if path.rsplit(".", 1)[-1] in biased:
            dense[f"{path}.bias"] = (n,)
    config = _config(architecture, model_type or name, more)
    return Family(name, config, linears, routers, dense)


_QKV = ("q_proj", "k_proj", "v_proj")
_POST = ("post_attention_layernorm", "post_feedforward_layernorm")
_MOE = {
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": EXPERT_INNER,
}

USUAL: tuple[Family, ...] = (
    decoder("llama", "LlamaForCausalLM"),
    decoder("qwen2", "Qwen2ForCausalLM", biased=_QKV, tie_word_embeddings=True),
    decoder("qwen3", "Qwen3ForCausalLM", head_norms={"q_norm": HEAD, "k_norm": HEAD}),
    decoder(
        "exaone4",
        "Exaone4ForCausalLM",
        norms=_POST,
        head_norms={"q_norm": HEAD, "k_norm": HEAD},
        sliding_window=None,
        sliding_window_pattern=None,
        layer_types=["full_attention"] * LAYERS,
    ),
    decoder("ernie4_5", "Ernie4_5ForCausalLM", use_bias=False),
    decoder(
        "nemotron",
        "NemotronForCausalLM",
        norm_bias=True,
        gated=False,
        hidden_act="relu2",
        norm_eps=1e-5,
        partial_rotary_factor=0.5,
    ),
    decoder(
        "stablelm",
        "StableLmForCausalLM",
        norm_bias=True,
        use_qkv_bias=False,
        qk_layernorm=False,
        partial_rotary_factor=0.25,
        layer_norm_eps=1e-5,
    ),
    decoder(
        "phi3",
        "Phi3ForCausalLM",
        fused=True,
        pad_token_id=0,
        original_max_position_embeddings=512,
    ),
    decoder(
        "gemma2",
        "Gemma2ForCausalLM",
        norms=(*_POST, "input_layernorm", "pre_feedforward_layernorm"),
        tie_word_embeddings=True,
        hidden_activation="gelu_pytorch_tanh",
        query_pre_attn_scalar=64,
        sliding_window=64,
    ),
    decoder(
        "seed_oss",
        "SeedOssForCausalLM",
        biased=_QKV,
        attention_bias=True,
        attention_out_bias=False,
        mlp_bias=False,
    ),
    decoder(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        head_norms={"q_norm": HEAD, "k_norm": HEAD},
        experts="mlp",
        decoder_sparse_step=1,
        mlp_only_layers=[],
        norm_topk_prob=True,
        **_MOE,
    ),
    decoder(
        "olmoe",
        "OlmoeForCausalLM",
        head_norms={"q_norm": HEADS * HEAD, "k_norm": KV_HEADS * HEAD},
        experts="mlp",
        num_experts=EXPERTS,
        num_experts_per_tok=2,
        intermediate_size=EXPERT_INNER,
    ),
    decoder(
        "minimax_m2",
        "MiniMaxM2ForCausalLM",
        head_norms={"q_norm": HEADS * HEAD, "k_norm": KV_HEADS * HEAD},
        experts="block_sparse_moe",
        expert_names=("w1", "w3", "w2"),
        router_bias="e_score_correction_bias",
        num_local_experts=EXPERTS,
        num_experts_per_tok=2,
        rotary_dim=32,
        scoring_func="sigmoid",
        intermediate_size=EXPERT_INNER,
        use_routing_bias=True,
        use_qk_norm=True,
    ),
    decoder(
        "mixtral",
        "MixtralForCausalLM",
        experts="block_sparse_moe",
        expert_names=("w1", "w3", "w2"),
        num_local_experts=EXPERTS,
        num_experts_per_tok=2,
        intermediate_size=EXPERT_INNER,
        sliding_window=None,
    ),
    decoder(
        "glm4_moe",
        "Glm4MoeForCausalLM",
        biased=_QKV,
        experts="mlp",
        dense_layers=1,
        shared="shared_experts",
        router_bias="gate.e_score_correction_bias",
        attention_bias=True,
        use_qk_norm=False,
        n_routed_experts=EXPERTS,
        n_shared_experts=1,
        num_experts_per_tok=2,
        moe_intermediate_size=EXPERT_INNER,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
        norm_topk_prob=True,
        routed_scaling_factor=1.0,
        partial_rotary_factor=0.5,
    ),
    decoder(
        "ernie4_5_moe",
        "Ernie4_5_MoeForCausalLM",
        experts="mlp",
        dense_layers=1,
        shared="shared_experts",
        router_bias="moe_statics.e_score_correction_bias",
        use_bias=False,
        moe_num_experts=EXPERTS,
        moe_k=2,
        moe_intermediate_size=EXPERT_INNER,
        moe_num_shared_experts=1,
        moe_layer_start_index=1,
        moe_layer_end_index=LAYERS - 1,
        moe_layer_interval=1,
    ),
    decoder(
        "gemma",
        "GemmaForCausalLM",
        tie_word_embeddings=True,
        hidden_activation="gelu_pytorch_tanh",
    ),
    decoder(
        "gemma3",
        "Gemma3ForCausalLM",
        model_type="gemma3_text",
        norms=(*_POST, "input_layernorm", "pre_feedforward_layernorm"),
        head_norms={"q_norm": HEAD, "k_norm": HEAD},
        tie_word_embeddings=True,
        hidden_activation="gelu_pytorch_tanh",
        query_pre_attn_scalar=64,
        sliding_window=64,
        layer_types=["full_attention"] * LAYERS,
    ),
    decoder(
        "cohere",
        "CohereForCausalLM",
        norms=("input_layernorm",),
        tie_word_embeddings=True,
        layer_norm_eps=1e-5,
        logit_scale=0.0625,
        use_qk_norm=False,
    ),
    decoder(
        "cohere2",
        "Cohere2ForCausalLM",
        norms=("input_layernorm",),
        tie_word_embeddings=True,
        layer_norm_eps=1e-5,
        logit_scale=0.0625,
        sliding_window=64,
        layer_types=["full_attention"] * LAYERS,
    ),
    decoder(
        "olmo2",
        "Olmo2ForCausalLM",
        norms=_POST,
        head_norms={"q_norm": HEADS * HEAD, "k_norm": KV_HEADS * HEAD},
    ),
    decoder("granite", "GraniteForCausalLM", mlp_bias=False, attention_bias=False),
    decoder(
        "hunyuan_v1_dense",
        "HunYuanDenseV1ForCausalLM",
        head_norms={"query_layernorm": HEAD, "key_layernorm": HEAD},
        use_qk_norm=True,
        attention_bias=False,
    ),
    decoder("smollm3", "SmolLM3ForCausalLM", no_rope_layers=[1, 0], pad_token_id=0),
    decoder("arcee", "ArceeForCausalLM", gated=False, hidden_act="relu2"),
    decoder(
        "qwen2_moe",
        "Qwen2MoeForCausalLM",
        biased=_QKV,
        experts="mlp",
        dense_layers=1,
        shared="shared_expert",
        gates={"mlp.shared_expert_gate": 1},
        shared_expert_intermediate_size=EXPERT_INNER,
        decoder_sparse_step=1,
        mlp_only_layers=[0],
        norm_topk_prob=True,
        **_MOE,
    ),
)
