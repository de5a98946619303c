"""What one release calls the modules of one checkpoint: mapper, fused projections, dense layers.

Put together from the extracted facts (`quantgate.vllm.facts`) and the checkpoint's config.json:
the architecture, the model within a multimodal one, and what depends on the config.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from quantgate.vllm.conditions import text_config
from quantgate.vllm.facts import nearest
from quantgate.vllm.mapper import NameMapper
from quantgate.vllm.packing import built_mappers, effective_packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from quantgate.vllm.facts import Architecture

# What the usual families fuse; used where an architecture is unknown or settles it at run time.
USUAL: Mapping[str, tuple[str, ...]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
# Where a class builds a part under one name and announces it to the quantization config under
# another: lists must use the second. (path, what vLLM's prefix has there), equal in 0.11 to 0.33.
# Falcon H1 counts its state spaces right below the model;
# vllm/model_executor/models/{minimax_m2,jamba,falcon_h1}.py.
_ANNOUNCED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "MiniMaxM2ForCausalLM": ((r"\.block_sparse_moe\.", ".mlp."),),
    "JambaForCausalLM": ((r"\.mamba\.", ".mixer."),),
    "FalconH1ForCausalLM": (
        (r"\.self_attn\.", "."),
        (r"\.layers\.(\d+)\.mamba\.(?:mamba\.)?", r".\1.mixer."),
    ),
}
_SCALES = ("weight_scale", "weight_scale_inv", "input_scale")
AT_RUN_TIME = "mappings-made-at-run-time"


@dataclass(frozen=True)
class Naming:
    """The names of one checkpoint in one release.

    Attributes:
        release: The release asked for.
        architecture: The name in config.json, empty if there is none.
        known: Whether the release's registry has it.
        packed: Fused projection → shards, as the quantization config gets to know them.
        fused: The same, with what the loaders fuse besides: what layers are made of.
        mapper: Checkpoint names → vLLM's names, without fusing.
        lists: The mapper that the names of targets and ignore lists go through; None before 0.10,
            when they had to be written in vLLM's names.
        dense: Last names of layers that are always built without quantization.
        wraps: Whether the architecture builds another model of the registry inside itself.
        k_eq_v: Whether the code loads k into v on layers that have no v_proj.
        unknown: What the facts leave open.
    """

    release: str = field(compare=False)
    architecture: str
    known: bool
    packed: Mapping[str, tuple[str, ...]]
    fused: Mapping[str, tuple[str, ...]]
    mapper: NameMapper = field(default_factory=NameMapper)
    lists: NameMapper | None = field(default_factory=NameMapper)
    dense: frozenset[str] = frozenset()
    wraps: bool = False
    k_eq_v: bool = False
    unknown: tuple[str, ...] = ()

    @property
    def open_mappings(self) -> bool:
        """Whether the fused names are a rule of thumb: the Transformers backend, or not known."""
        return not self.known or AT_RUN_TIME in self.unknown

    @property
    def quantizes_towers(self) -> bool:
        """Whether the class is known to hand the quantization config to its vision tower.

        Observed with vLLM 0.32.0's own loader (layers of the tower and the projector); the
        constructors of 0.19.1 and later pass it on in the same way. `dense` names the layers of a
        tower that get none.
        """
        version = tuple(int(p) for p in self.release.split("."))
        return self.known and version >= (0, 19) and self.architecture in _TOWER_CLASSES

    @property
    def tops(self) -> frozenset[str]:
        """First components of the names that the mapper makes."""
        tables = (*self.mapper.prefix, *self.mapper.substr)
        return frozenset(new.partition(".")[0] for _, new in tables if new)

    def module(self, name: str) -> str | None:
        """The name that vLLM gives a checkpoint module, not yet fused; None if dropped."""
        mapped = self.mapper.map(f"{name}.weight")
        return None if mapped is None else mapped[0].removesuffix(".weight")

    def announced(self, prefix: str) -> str:
        """The name of a layer as its class tells it to the quantization config."""
        for built, told in _ANNOUNCED.get(self.architecture, ()):
            prefix = re.sub(built, told, prefix, count=1)
        return prefix

    @property
    def renames_scales(self) -> bool:
        """Whether the class may have another name for a scale than the file."""
        tables = (*self.mapper.regex, *self.mapper.substr, *self.mapper.suffix)
        return any(new is not None and new.endswith(_SCALES) for _, new in tables)

    def leaf(self, module: str, leaf: str) -> str:
        """The last name of a module's tensor in vLLM where the class renames scales."""
        mapped = self.mapper.map(f"{module}.{leaf}")
        new = leaf if mapped is None else mapped[0].rpartition(".")[2]
        return new if new in _SCALES else leaf

    def entry(self, entry: str, *, dotted_only: bool = False) -> str | None:
        """A target or ignore entry as vLLM matches it; None where the release drops it.

        With `dotted_only` what has no dot or is a pattern is left alone, as in
        compressed_tensors.py apply_vllm_mapper.
        """
        if self.lists is None:
            return entry
        if dotted_only and ("." not in entry or entry.startswith("re:")):
            return entry
        mapped = self.lists.map(entry)
        return None if mapped is None else mapped[0]


def architecture_of(config: Mapping[str, Any]) -> str:
    """The architecture that config.json names, empty if it names none."""
    names = config.get("architectures")
    first = names[0] if isinstance(names, list) and names else ""
    return first if isinstance(first, str) else ""


# vLLM 0.33.0, config/model.py _SUFFIX_TO_DEFAULTS: a class that the registry lacks is looked up
# with the other endings (a classifier of a known decoder).
_TOWER_CLASSES = frozenset(
    {
        *("Gemma3ForConditionalGeneration", "Mistral3ForConditionalGeneration"),
        *("Qwen2_5_VLForConditionalGeneration", "Qwen3VLForConditionalGeneration"),
        *("Qwen3VLMoeForConditionalGeneration", "Qwen3_5ForConditionalGeneration"),
        "Qwen3_5MoeForConditionalGeneration",
    }
)
_ENDINGS = (
    *("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel", "ForTextEncoding"),
    *("EmbeddingModel", "ForSequenceClassification", "ForTokenClassification"),
    *("ForAudioClassification", "ForImageClassification", "ForVideoClassification"),
    *("ClassificationModel", "ForRewardModeling", "RewardModel", "Model"),
)


def architectures_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """All architectures that config.json names."""
    names = config.get("architectures")
    return tuple(n for n in names if isinstance(n, str)) if isinstance(names, list) else ()


def registered(config: Mapping[str, Any], release: str) -> str | None:
    """The name under which a release's registry has the model, None if it has it under none.

    The first known of several counts (models/registry.py resolve_model_cls).
    """
    for name in architectures_of(config):
        ending = next((e for e in _ENDINGS if name.endswith(e)), None)
        others = [name.removesuffix(ending) + e for e in _ENDINGS] if ending else []
        found = next((n for n in (name, *others) if _architecture(n, release)), None)
        if found is not None:
            return found
    return None


def naming_of(config: Mapping[str, Any], release: str) -> Naming:
    """The names of a checkpoint with this config.json in a release."""
    name = registered(config, release) or architecture_of(config)
    version = tuple(int(p) for p in release.split("."))
    chain = tuple(_chain(name, config, release))
    if not chain:
        return Naming(release, name, known=False, packed=USUAL, fused=USUAL)
    outer = chain[0][0]
    built = effective_packed(outer, config, chain[1:])
    packed: dict[str, tuple[str, ...]] = dict(built.packed)
    fused: dict[str, tuple[str, ...]] = dict(built.late)
    for architecture, _ in reversed(chain):
        fused.update(_stacked(architecture))
    unknown = tuple(dict.fromkeys(u for a, _ in chain for u in a.unknown))
    if AT_RUN_TIME in unknown:
        packed = {**USUAL, **packed}
    mapper = NameMapper.from_tables(outer.mapper)
    own = [b.tables for b in built_mappers(outer, config) if b.part == outer.parts[0] and b.tables]
    loading = NameMapper.from_tables(own[-1]) if own else mapper
    lists: NameMapper | None = None
    if version >= (0, 30):
        lists = mapper.renames()
    elif version >= (0, 10):
        lists = mapper.unstacked()
    return Naming(
        release,
        name,
        known=True,
        packed=packed,
        fused={**fused, **packed},
        mapper=loading.unstacked(),
        lists=lists,
        dense=frozenset(_always_dense(a for a, _ in chain)),
        wraps=bool(outer.inner) or "language_model" in str(outer.mapper),
        k_eq_v=any(a.k_eq_v for a, _ in chain),
        unknown=unknown,
    )


@lru_cache(maxsize=64)
def _architecture(name: str, release: str) -> Architecture | None:
    return nearest(release).architecture(name)


def _chain(
    name: str, config: Mapping[str, Any], release: str
) -> Iterator[tuple[Architecture, Mapping[str, Any]]]:
    """The architecture and its config, then the models within it, outermost first."""
    seen: set[str] = set()
    pending = [(name, config)]
    while pending:
        current, inner_config = pending.pop(0)
        found = _architecture(current, release) if current and current not in seen else None
        seen.add(current)
        if found is None:
            continue
        yield found, inner_config
        text = text_config(inner_config)
        for inner in found.inner:
            names = inner.architectures or tuple(filter(None, [architecture_of(text)]))
            pending += [(n, text) for n in names[:2]]


def _stacked(architecture: Architecture) -> dict[str, tuple[str, ...]]:
    """What the loaders fuse: `.qkv_proj` ← `.q_proj`, … in the order of the rows."""
    rows: dict[str, list[str]] = {}
    for fused, shard, _ in architecture.stacked:
        target, source = fused.strip("."), shard.strip(".")
        if "." not in target and "." not in source and source not in rows.setdefault(target, []):
            rows[target].append(source)
    return {target: tuple(shards) for target, shards in rows.items() if len(shards) > 1}


def _always_dense(chain: Iterable[Architecture]) -> Iterator[str]:
    """Last names of layers that every part builds without a quantization config."""
    for architecture in chain:
        for layer in architecture.unquantized:
            if layer.certain and layer.module:
                yield layer.module.rpartition(".")[2]
