"""Sizes that config.json implies where what vLLM builds does not show which keys make them.

Latent attention can be built in a few sizes only, so that no keys can be told apart, and linear
attention and state spaces multiply more keys than `quantgate.vllm.built` looks for.

Source: the `__init__` of the model classes, vLLM 0.32.0, vllm/model_executor/models.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Size = tuple[int | None, int | None]  # (N, K)


class Attention(Enum):
    """How an architecture's attention follows from its config."""

    LINEAR = "linear"  # some layers have none, but a recurrent block
    LATENT = "latent"  # q and kv go through low-rank projections
    STATE_SPACE = "state space"  # only the state spaces are not known otherwise
    OPEN = "open"  # differs by layer


KNOWN: Mapping[str, Attention] = {
    **dict.fromkeys(
        (
            *("Qwen3NextForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"),
            *("Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"),
        ),
        Attention.LINEAR,
    ),
    **dict.fromkeys(
        ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM"),
        Attention.LATENT,
    ),
    **dict.fromkeys(
        (
            *("FalconH1ForCausalLM", "NemotronHForCausalLM"),
            *("GraniteMoeHybridForCausalLM", "BambaForCausalLM"),
        ),
        Attention.STATE_SPACE,
    ),
    **dict.fromkeys(("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"), Attention.OPEN),
}


@dataclass(frozen=True)
class ConfigSizes:
    """The sizes of one config.json. Leaves are the last names of modules."""

    plain: Mapping[str, Size]
    routed: Mapping[str, Size]
    shared: Mapping[str, Size]
    vocabulary: Size

    def of(self, module: str) -> Size | None:
        """(N, K) of a checkpoint module, None where config.json does not give it."""
        leaf = module.rpartition(".")[2]
        if leaf in {"embed_tokens", "lm_head"}:
            return self.vocabulary
        if ".experts." in module:
            return self.routed.get(leaf)
        if "shared_expert" in module:
            return self.shared.get(leaf)
        return self.plain.get(leaf)


def config_sizes(config: Mapping[str, Any]) -> ConfigSizes | None:
    """The sizes that config.json implies, None for an architecture that is not known here."""
    names = config.get("architectures")
    first = names[0] if isinstance(names, list) and names else None
    kind = KNOWN.get(first) if isinstance(first, str) else None
    if kind is None or first is None:
        return None
    inner = config.get("text_config")
    c = _Numbers(inner if isinstance(inner, dict) else config)
    hidden = c("hidden_size")
    if kind is Attention.STATE_SPACE:
        return ConfigSizes(_state_space(c, hidden), {}, {}, (None, None))
    attention: dict[str, Size] = {}
    if kind is Attention.LATENT:
        attention = _latent(c, hidden)
    elif kind is not Attention.OPEN:
        attention = _linear_attention(c, hidden)
    return ConfigSizes(
        {**attention, **_mlp(hidden, c("intermediate_size"))},
        _mlp(hidden, c("moe_intermediate_size") or c("intermediate_size")),
        _mlp(hidden, _shared_width(c)),
        (c("vocab_size"), hidden),
    )


class _Numbers:
    """Sane positive numbers of a config, None for everything else."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    def __call__(self, key: str) -> int | None:
        value = self._config.get(key)
        return value if type(value) is int and 0 < value < 1 << 31 else None

    def total(self, *factors: int | None) -> int | None:
        """The product, None if a factor is unknown."""
        result = 1
        for factor in factors:
            if factor is None:
                return None
            result *= factor
        return result


def _plus(*terms: int | None) -> int | None:
    known = [t for t in terms if t is not None]
    return sum(known) if len(known) == len(terms) else None


def _latent(c: _Numbers, hidden: int | None) -> dict[str, Size]:
    heads, nope, rope = c("num_attention_heads"), c("qk_nope_head_dim"), c("qk_rope_head_dim")
    value, kv_rank, q_rank = c("v_head_dim"), c("kv_lora_rank"), c("q_lora_rank")
    query = c.total(heads, _plus(nope, rope))
    return {
        "q_proj": (query, hidden),
        "q_a_proj": (q_rank, hidden),
        "q_b_proj": (query, q_rank),
        "kv_a_proj_with_mqa": (_plus(kv_rank, rope), hidden),
        "kv_b_proj": (c.total(heads, _plus(nope, value)), kv_rank),
        "o_proj": (hidden, c.total(heads, value)),
    }


def _linear_attention(c: _Numbers, hidden: int | None) -> dict[str, Size]:
    values = c("linear_num_value_heads")
    key = c.total(c("linear_num_key_heads"), c("linear_key_head_dim"))
    value = c.total(values, c("linear_value_head_dim"))
    return {
        "in_proj_qkvz": (_plus(key, key, value, value), hidden),
        "in_proj_qkv": (_plus(key, key, value), hidden),
        "in_proj_z": (value, hidden),
        "in_proj_ba": (c.total(2, values), hidden),
        "in_proj_a": (values, hidden),
        "in_proj_b": (values, hidden),
        "out_proj": (hidden, value),
    }


def _state_space(c: _Numbers, hidden: int | None) -> dict[str, Size]:
    """Mamba2: gate, x, B, C and dt in one projection; Nemotron H has names of its own."""
    heads = c("mamba_n_heads") or c("mamba_num_heads")
    groups = c("mamba_n_groups") or c("n_groups")
    of_group = c("mamba_d_state") or c("ssm_state_size")
    inner = c("mamba_d_ssm") or c.total(heads, c("mamba_d_head") or c("mamba_head_dim"))
    both = c.total(2, groups, of_group)
    return {
        "in_proj": (_plus(inner, inner, both, heads), hidden),
        "out_proj": (hidden, inner),
    }


def _shared_width(c: _Numbers) -> int | None:
    """Width of the shared experts: named outright, or a number of routed ones."""
    named = c("shared_expert_intermediate_size")
    return named or c.total(c("n_shared_experts"), c("moe_intermediate_size"))


def _mlp(hidden: int | None, inner: int | None) -> dict[str, Size]:
    into, out = (inner, hidden), (hidden, inner)
    return {
        "gate_proj": into,
        "up_proj": into,
        "gate_up_proj": (2 * inner if inner else None, hidden),
        "down_proj": out,
        "w1": into,
        "w3": into,
        "w2": out,
    }
