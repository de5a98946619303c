"""vLLM's layers: which checkpoint modules vLLM puts together into one, and what it calls that.

q, k and v become one `qkv_proj`, gate and up one `gate_up_proj`, all routed experts of a block
one `experts`. Quantization is decided per vLLM layer, so everything below asks about layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PACKED: Mapping[str, tuple[str, ...]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer as vLLM builds it.

    Attributes:
        prefix: vLLM's name for it.
        cls: Its class: `QKVParallelLinear`, `MergedColumnParallelLinear`, `RowParallelLinear`,
            `ColumnParallelLinear`, `ReplicatedLinear`, `RoutedExperts`, `ParallelLMHead`,
            `VocabParallelEmbedding`.
        shards: Shard name → checkpoint module, or None where the checkpoint has no such module;
            empty for a layer that is not fused.
        modules: The checkpoint modules that it is made of.
    """

    prefix: str
    cls: str
    shards: tuple[tuple[str, str | None], ...]
    modules: tuple[str, ...]

    def shard_prefix(self, shard: str) -> str:
        """The name of one shard: every occurrence of the fused name is replaced, as in vLLM."""
        fused = self.prefix.rpartition(".")[2]
        return self.prefix.replace(fused, shard)


_ROW = frozenset({"o_proj", "down_proj", "out_proj", "dense", "fc2", "c_proj", "dense_4h_to_h"})
_REPLICATED = frozenset({"gate", "router", "shared_expert_gate"})
_CLASSES = {"qkv_proj": "QKVParallelLinear", "gate_up_proj": "MergedColumnParallelLinear"}


def is_router(module: str) -> bool:
    """Whether a module chooses experts; vLLM builds most of those without quantization."""
    parts = module.split(".")
    return parts[-1] in _REPLICATED or parts[-2:] == ["router", "proj"]


def build_layers(modules: Iterable[str]) -> tuple[Layer, ...]:
    """Put a checkpoint's linear modules together into vLLM's layers, in order of appearance."""
    fused: dict[str, dict[str, str]] = {}
    experts: dict[str, list[str]] = {}
    order: dict[str, None] = {}
    alone: dict[str, str] = {}
    shard_to_fused = {s: f for f, shards in PACKED.items() for s in shards}
    modules = tuple(modules)
    # In latent attention q_proj stands alone.
    latent = {m.rpartition(".")[0] for m in modules if m.endswith(".kv_a_proj_with_mqa")}
    for module in modules:
        block = expert_block(module)
        parent, _, leaf = module.rpartition(".")
        if block is not None:
            experts.setdefault(block, []).append(module)
            order.setdefault(block)
        elif leaf in shard_to_fused and not (leaf == "q_proj" and parent in latent):
            prefix = f"{parent}.{shard_to_fused[leaf]}" if parent else shard_to_fused[leaf]
            fused.setdefault(prefix, {})[leaf] = module
            order.setdefault(prefix)
        else:
            alone[module] = leaf
            order.setdefault(module)
    layers = []
    for prefix in order:
        leaf = prefix.rpartition(".")[2]
        if prefix in experts:
            layers.append(Layer(prefix, "RoutedExperts", (), tuple(experts[prefix])))
        if prefix in fused:
            found = fused[prefix]
            shards = tuple((s, found.get(s)) for s in PACKED[leaf])
            layers.append(Layer(prefix, _CLASSES[leaf], shards, tuple(found.values())))
        if prefix in alone:
            layers.append(Layer(prefix, _class_of(leaf), (), (prefix,)))
    return tuple(layers)


def expert_block(module: str) -> str | None:
    """`….experts` if the module belongs to one routed expert (`….experts.7.up_proj`)."""
    head, separator, tail = module.rpartition(".experts.")
    if not separator or not tail.partition(".")[0].isdigit():
        return None
    return f"{head}.experts"


def _class_of(leaf: str) -> str:
    if leaf == "lm_head":
        return "ParallelLMHead"
    if leaf in _CLASSES:
        return _CLASSES[leaf]
    if "embed" in leaf or leaf == "wte":
        return "VocabParallelEmbedding"
    if leaf in _ROW:
        return "RowParallelLinear"
    return "ReplicatedLinear" if leaf in _REPLICATED else "ColumnParallelLinear"
