"""Configs to build architectures with: the defaults of transformers, and sizes that tell apart.

Every size gets a value of its own, so that a size that vLLM builds shows which keys of the config
it is made of. Two sets of values leave no coincidence standing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LAYERS = 12
_KEYS: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "head": ("head_dim", "kv_channels"),
    "inner": (
        "intermediate_size",
        "n_inner",
        "ffn_dim",
        "ffn_hidden_size",
        "dense_intermediate_size",
    ),
    "expert": ("moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size"),
    "shared": ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"),
    "vocabulary": ("vocab_size",),
    "experts": ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"),
    "shared_count": ("n_shared_experts", "moe_num_shared_experts", "num_shared_experts"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
}
VALUES: tuple[Mapping[str, int], ...] = (
    {
        "hidden": 336,
        "heads": 6,
        "kv_heads": 2,
        "head": 40,
        "inner": 1000,
        "expert": 464,
        "shared": 712,
        "vocabulary": 1544,
        "experts": 8,
        "shared_count": 3,
        "layers": LAYERS,
    },
    {
        "hidden": 480,
        "heads": 12,
        "kv_heads": 4,
        "head": 24,
        "inner": 1160,
        "expert": 536,
        "shared": 824,
        "vocabulary": 1832,
        "experts": 16,
        "shared_count": 5,
        "layers": LAYERS,
    },
)
_GROUP = {key: group for group, keys in _KEYS.items() for key in keys}
# A choice for what would be too large, or too particular to one size, for a small model.
_SMALL: Mapping[str, Any] = {
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "top_k"), 2),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
    **dict.fromkeys(("num_nextn_predict_layers", "num_kv_shared_layers"), 0),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 2048),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 1),
}
# Layers of a mixture that have a plain MLP, by number; by default there are none.
_DENSE_LAYERS = "mlp_only_layers"
# What vLLM reads and checkpoints have, but transformers' class does not give a value.
_EXPECTED: Mapping[str, Mapping[str, Any]] = {
    "Glm4MoeForCausalLM": {"head_dim": None},
    "DeepseekV2ForCausalLM": {"n_group": 1, "topk_group": 1},
    "Glm4vMoeForConditionalGeneration": {"use_qk_norm": False},
    "MiniMaxM2ForCausalLM": {
        "rotary_dim": 16,
        "scoring_func": "sigmoid",
        "use_routing_bias": True,
        "use_qk_norm": True,
        "num_local_experts": 8,
    },
    "NemotronForCausalLM": {"num_key_value_heads": None},
    "Qwen3VLMoeForConditionalGeneration": {"norm_topk_prob": True},
}
# Classes that fail on a head size of its own.
_NO_HEAD_SIZE = frozenset({"FalconForCausalLM", "Glm4MoeLiteForCausalLM"})


def text_part(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a config that describes the decoder."""
    for key in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(key), dict):
            part: dict[str, Any] = config[key]
            return part
    return config


def probing(
    architecture: str, default: dict[str, Any], values: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, int]]:
    """A default config with the sizes replaced; also which keys got which value."""
    text = text_part(default)
    for key in _EXPECTED.get(architecture, {}):
        text.setdefault(key, None)
    count = next((text[k] for k in _KEYS["layers"] if isinstance(text.get(k), int)), 0)
    given: dict[str, int] = {}
    if architecture not in _NO_HEAD_SIZE:
        text.setdefault("head_dim", None)  # read by most classes, known to transformers or not
    for key, old in list(text.items()):
        group = _GROUP.get(key)
        if group is not None and type(old) in {int, type(None)}:
            if old is None and group not in {"heads", "kv_heads", "head"}:
                continue
            text[key] = values[group]
            if group != "layers":
                given[key] = values[group]
        elif key in _SMALL and type(old) is int and old > 0:
            text[key] = _SMALL[key]
        elif key == _DENSE_LAYERS:
            text[key] = [1]
        elif isinstance(old, list) and count and len(old) == count:
            text[key] = _all_kinds(old)
        elif isinstance(old, dict) and old and all(str(k).isdigit() for k in old):
            text[key] = {k: v for k, v in old.items() if int(k) < LAYERS}
    text.update({k: v for k, v in _EXPECTED.get(architecture, {}).items() if v is not None})
    for part in {id(default): default, id(text): text}.values():
        part.pop("torch_dtype", None)
        part["dtype"] = "bfloat16"
    default.pop("quantization_config", None)
    default["architectures"] = [architecture]
    return default, given


def _all_kinds(values: list[Any]) -> list[Any]:
    """The first layers of a list with an entry per layer, with every kind of entry in them."""
    kept = values[:LAYERS] + values[:1] * (LAYERS - len(values))
    missing = [v for v in values if v not in kept]
    unique = [v for i, v in enumerate(missing) if v not in missing[:i]]
    return kept[: LAYERS - len(unique)] + unique if unique else kept


def switches(config: dict[str, Any]) -> Iterator[tuple[bool, str, Any, Any]]:
    """(whether in the text part, key, value, another value) of keys that may decide on a module.

    Every yes-or-no key, and every whole number that is not one of the sizes: a number of layers
    between two of a kind, a number of shared experts.
    """
    text = text_part(config)
    for key, value in text.items():
        if type(value) is bool:
            yield True, key, value, not value
        elif type(value) is int and key not in _GROUP and not key.endswith(("_id", "_positions")):
            yield True, key, value, value + 1 if value < 64 else 2 * value
    if text is not config and type(config.get("tie_word_embeddings")) is bool:
        tied = config["tie_word_embeddings"]
        yield False, "tie_word_embeddings", tied, not tied
