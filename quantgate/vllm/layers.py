"""vLLM's layers: which checkpoint modules vLLM puts together into one, and what it calls that.

q, k and v become one `qkv_proj`, gate and up one `gate_up_proj`, all routed experts of a block
one `experts`. Quantization is decided per vLLM layer, so everything below asks about layers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quantgate.vllm.naming import Naming


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer as vLLM builds it.

    Attributes:
        prefix: vLLM's name for it.
        cls: Its class: `QKVParallelLinear`, `MergedColumnParallelLinear`, `RowParallelLinear`,
            `ColumnParallelLinear`, `ReplicatedLinear`, `RoutedExperts`, `ParallelLMHead`,
            `VocabParallelEmbedding`.
        shards: (shard name, checkpoint module), the module None where the checkpoint has none;
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


def is_router(module: str) -> bool:
    """Whether a module chooses experts; vLLM builds most of those without quantization."""
    parts = module.split(".")
    return parts[-1] in _REPLICATED or parts[-2:] == ["router", "proj"]


def build_layers(modules: Iterable[str], naming: Naming) -> tuple[Layer, ...]:
    """Put a checkpoint's linear modules together into vLLM's layers, in order of appearance.

    Modules that the model class drops are left out.
    """
    named = {m: v for m in modules if (v := naming.module(m)) is not None}
    siblings: dict[str, set[str]] = defaultdict(set)
    for vllm_name in named.values():
        parent, _, leaf = vllm_name.rpartition(".")
        siblings[parent].add(leaf)
    groups = _groups_by_shard(naming.fused)
    members: dict[str, list[tuple[str, str]]] = {}
    shards_of: dict[str, tuple[str, ...]] = {}
    for module, vllm_name in named.items():
        parent, _, leaf = vllm_name.rpartition(".")
        block = expert_block(vllm_name)
        if block is not None:
            prefix = block
        else:
            fused, shards = _group(leaf, siblings[parent], groups)
            prefix = (f"{parent}.{fused}" if parent else fused) if shards else vllm_name
            if shards:
                shards_of[prefix] = shards
        members.setdefault(prefix, []).append((leaf, module))
    return tuple(
        _layer(prefix, found, shards_of.get(prefix, ()), experts=expert_block(named[found[0][1]]))
        for prefix, found in members.items()
    )


def _layer(
    prefix: str, found: list[tuple[str, str]], shards: tuple[str, ...], *, experts: str | None
) -> Layer:
    modules = tuple(module for _, module in found)
    if experts is not None:
        return Layer(prefix, "RoutedExperts", (), modules)
    leaf = prefix.rpartition(".")[2]
    if leaf == "experts":
        return Layer(prefix, "RoutedExperts", (), modules)  # all of a block in one module
    by_leaf = dict(found)
    return Layer(
        prefix,
        _class_of(leaf, fused=bool(shards)),
        tuple((s, by_leaf.get(s)) for s in shards),
        modules,
    )


def _groups_by_shard(
    fused: Mapping[str, tuple[str, ...]],
) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    groups: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for name, shards in fused.items():
        if len(shards) > 1:
            for shard in shards:
                groups[shard].append((name, shards))
    return groups


def _group(
    leaf: str, siblings: set[str], groups: Mapping[str, list[tuple[str, tuple[str, ...]]]]
) -> tuple[str, tuple[str, ...]]:
    """The fused projection a module belongs to: the one of whose shards most are there.

    A module without any other shard beside it stands alone (q_proj of latent attention).
    """
    best: tuple[str, tuple[str, ...]] = ("", ())
    most = 1
    for name, shards in groups.get(leaf, ()):
        present = sum(s in siblings for s in shards)
        if present > most:
            best, most = (name, shards), present
    return best


def expert_block(module: str) -> str | None:
    """`….experts` if the module belongs to one routed expert (`….experts.7.up_proj`)."""
    head, separator, tail = module.rpartition(".experts.")
    if not separator or not tail.partition(".")[0].isdigit():
        return None
    return f"{head}.experts"


def _class_of(leaf: str, *, fused: bool) -> str:
    if leaf == "lm_head":
        return "ParallelLMHead"
    if "qkv" in leaf or leaf == "query_key_value":
        return "QKVParallelLinear"
    if fused or leaf == "gate_up_proj":
        return "MergedColumnParallelLinear"
    if "embed" in leaf or leaf == "wte":
        return "VocabParallelEmbedding"
    if leaf in _ROW:
        return "RowParallelLinear"
    return "ReplicatedLinear" if leaf in _REPLICATED else "ColumnParallelLinear"
