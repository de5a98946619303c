"""Independent witnesses of a module's true size [N, K], so that a wrong `bits` cannot hide.

Best first: what config.json implies for a known architecture, then what the neighbours show (the
width of the embedding and of the norms is never quantized, and gate, up and down share theirs).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quantgate.quantization.observed import observe
from quantgate.quantization.scheme import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# Architectures whose decoder layers have exactly the plain shapes of `_from_config`. Models with
# gated queries, latent attention or per-layer head sizes are left to the neighbours.
PLAIN = frozenset(
    {
        *("LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "Qwen2ForCausalLM"),
        *("Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "GemmaForCausalLM"),
        *("Gemma2ForCausalLM", "Gemma3ForCausalLM", "GraniteForCausalLM", "Olmo2ForCausalLM"),
        *("Phi3ForCausalLM", "CohereForCausalLM", "Cohere2ForCausalLM", "Olmo3ForCausalLM"),
    }
)
# Of these, vLLM computes the head size itself and never reads `head_dim`.
_OWN_HEAD_SIZE = frozenset(
    {
        *("Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "CohereForCausalLM", "Cohere2ForCausalLM"),
        *("Olmo2ForCausalLM", "Olmo3ForCausalLM"),
    }
)
CONFIG, NEIGHBOURS = "config.json", "neighbouring tensors"
_OTHER_TOWERS = ("vision", "visual", "audio", "image", "speech", "projector")


def witness_sizes(
    config: Mapping[str, Any],
    modules: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]],
) -> Callable[[str], Sizes]:
    """A function from a module name to what is known of its size.

    Args:
        config: The content of config.json.
        modules: Module name → leaf → (dtype, shape).
    """
    declared = _from_config(config)
    hidden = _hidden_size(modules)
    wide = _hidden_by_position(hidden)

    def sizes(module: str) -> Sizes:
        if any(t in module for t in _OTHER_TOWERS):
            return Sizes()
        leaf = module.rpartition(".")[2]
        routed = ".experts." in module
        found = declared(leaf, routed, "shared_expert" in module)
        n, k = wide.get(leaf, (None, None))
        if leaf in {"down_proj", "w2"}:
            k = _width_of_sibling(module, modules, ("up_proj", "gate_proj", "w3", "w1"))
        if found is None:
            return Sizes(n, k, NEIGHBOURS) if n or k else Sizes()
        if leaf == "o_proj":
            k = _width_of_sibling(module, modules, ("q_proj",))
        pairs = ((n, found.n), (k, found.k))
        return replace(found, disputed=any(a and b and a != b for a, b in pairs))

    return sizes


def _hidden_by_position(hidden: int | None) -> dict[str, tuple[int | None, int | None]]:
    takes = ("q_proj", "k_proj", "v_proj", "qkv_proj", "gate_proj", "up_proj", "gate_up_proj")
    gives = ("o_proj", "down_proj")
    table: dict[str, tuple[int | None, int | None]] = dict.fromkeys(takes, (None, hidden))
    table.update(dict.fromkeys(gives, (hidden, None)))
    table.update({"w1": (None, hidden), "w3": (None, hidden), "w2": (hidden, None)})
    return table


def _hidden_size(
    modules: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]],
) -> int | None:
    """Width of the residual stream, from the embedding or, without it, the norms."""
    widths: set[int] = set()
    for name, leaves in modules.items():
        if any(t in name for t in _OTHER_TOWERS):
            continue
        weight = leaves.get("weight")
        if weight is None:
            continue
        if name.endswith("embed_tokens") and len(weight[1]) == 2:
            return weight[1][1]
        if name.endswith("input_layernorm") and len(weight[1]) == 1:
            widths.add(weight[1][0])
    return widths.pop() if len(widths) == 1 else None


def _width_of_sibling(
    module: str,
    modules: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]],
    siblings: Iterable[str],
) -> int | None:
    """K of a down or output projection: the N of a module that feeds it."""
    parent = module.rpartition(".")[0]
    for sibling in siblings:
        leaves = modules.get(f"{parent}.{sibling}")
        width = observe(leaves).n if leaves else None
        if width is not None:
            return width
    return None


def _from_config(
    config: Mapping[str, Any],
) -> Callable[[str, bool, bool], Sizes | None]:
    names = config.get("architectures")
    first = names[0] if isinstance(names, list) and names else None
    if not isinstance(first, str) or first not in PLAIN:
        return lambda _leaf, _routed, _shared: None

    def number(*keys: str) -> int | None:
        values: Iterable[object] = (config.get(key) for key in keys)
        return next(
            (v for v in values if isinstance(v, int) and not isinstance(v, bool) and v > 0), None
        )

    hidden, heads = number("hidden_size"), number("num_attention_heads")
    kv_heads = number("num_key_value_heads") or heads
    computed = hidden // heads if hidden and heads else None
    head = number("head_dim") or computed
    if first in _OWN_HEAD_SIZE and head != computed:
        head = None
    q = heads * head if heads and head else None
    kv = kv_heads * head if kv_heads and head else None
    dense = number("intermediate_size")
    qkv = q + 2 * kv if q and kv else None
    attention = {
        "q_proj": (q, hidden),
        "k_proj": (kv, hidden),
        "v_proj": (kv, hidden),
        "qkv_proj": (qkv, hidden),
        "o_proj": (hidden, q),
    }

    def sizes(leaf: str, routed: bool, shared: bool) -> Sizes | None:  # noqa: FBT001
        inner = dense
        if routed:
            inner = number("moe_intermediate_size") or dense
        elif shared:
            inner = number("shared_expert_intermediate_size") or dense
        both = 2 * inner if inner else None
        table = {
            **attention,
            "gate_proj": (inner, hidden),
            "up_proj": (inner, hidden),
            "gate_up_proj": (both, hidden),
            "down_proj": (hidden, inner),
            "w1": (inner, hidden),
            "w3": (inner, hidden),
            "w2": (hidden, inner),
        }
        found = table.get(leaf)
        return Sizes(*found, CONFIG) if found else None

    return sizes
