"""The records of the facts as Python sees them: architectures, their classes, and methods.

A value that vLLM's source leaves open is `{"$expr": source}`; where it would be the value or
key of a mapping, the entry is left out here and `Architecture.unknown` says that one is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MODELS = "vllm.model_executor.models"
# Always so where one process holds all layers, and on the rank that holds the part in question.
_WITHOUT_PIPELINE = frozenset({"get_pp_group().is_first_rank", "get_pp_group().is_last_rank"})
_EMPTY: Mapping[str, Any] = MappingProxyType({})
Packed = dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one of the two mappings while a model is built.

    Attributes:
        part: The class whose instance makes it.
        method: `__init__`, or what it calls.
        on: What it changes: `self`, or a quantization config.
        attr: `packed` or `mapper`.
        op: `=` (another object), `|=`, `[]=` (one key), `update`, `pop` or `setdefault`.
        key: The key of `[]=`.
        value: The new value, `{"$expr": source}` in the parts that are open.
        when: Source texts of the conditions; all must hold.
        defs: What the names in those and in the open parts are, as source texts.
    """

    part: str
    method: str
    on: str
    attr: str
    op: str
    key: str = ""
    value: Any = None
    when: tuple[str, ...] = ()
    defs: Mapping[str, str] = field(default_factory=lambda: _EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A model within the model, itself looked up in the registry.

    `architectures` is empty where the checkpoint's config names it; `hf_config` is the source
    text of the config it gets.
    """

    part: str
    architectures: tuple[str, ...]
    hf_config: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unquantized:
    """A linear layer that vLLM builds without a quantization config.

    `certain` says that no condition but the pipeline rank guards it, and that no other part of
    the architecture builds a module of the same last name with a quantization config.
    """

    part: str
    module: str
    layer: str
    certain: bool
    when: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What one release does with one architecture, on CUDA where platforms differ.

    Attributes:
        name: As in config.json's `architectures`.
        release: The release that the facts are of.
        cls: Module and class, `vllm.model_executor.models.llama:LlamaForCausalLM`; empty where
            the source does not settle it.
        sections: The registry tables that list it.
        parts: The classes that its code names, its own first; they err on the side of too many.
        supports_quant: Whether the class hands its mappings to the quantization config itself,
            before it builds anything (`SupportsQuant`); else the loader does
            (`configure_quant_config`), by reference.
        packed: Fused projection → the checkpoint's names of its shards (class attribute).
        mapper: The class's `hf_to_vllm_mapper`: table (`renaming`, `regex`, `substr`,
            `stacked`, `prefix`, `suffix`) → old → new in order; a new name of None drops.
        component_packed: Part → its `packed`, which reaches the quantization config too.
        component_mapper: Part → the renaming tables it applies after those of `mapper`.
        stacked: (fused, shard, shard id) as the loaders of its parts fuse them.
        experts: (gate, down, up) names of a fused-experts layer's checkpoint tensors; None for
            one that the layer does not have, empty for one that the source leaves open.
        changes: Changes of the mappings at construction.
        inner: Models within the model.
        loaders: Part → what its automatic loader is told to skip or ignore.
        skips: (part, source text) of tests that make a hand-written loader pass over a weight.
        load_renames: (part, record) of renames a hand-written loader does.
        tied: (part, test, what it does) where embeddings are tied.
        unquantized: Layers built without a quantization config.
        k_eq_v: Whether its code handles layers without a v_proj.
        unknown: What stays open, in short names: `mappings-made-at-run-time` (the Transformers
            backend), `inner-model-named-by-config`, `packed-set-at-construction`, ...
        platforms: Platform → what differs there.
    """

    name: str
    release: str
    cls: str
    sections: tuple[str, ...]
    parts: tuple[str, ...]
    supports_quant: bool
    packed: Packed
    mapper: dict[str, Any]
    component_packed: dict[str, Packed]
    component_mapper: dict[str, dict[str, Any]]
    stacked: tuple[tuple[str, str, Any], ...]
    experts: tuple[tuple[str | None, ...], ...]
    changes: tuple[Change, ...]
    inner: tuple[Inner, ...]
    loaders: tuple[tuple[str, dict[str, Any]], ...]
    skips: tuple[tuple[str, str], ...]
    load_renames: tuple[tuple[str, dict[str, Any]], ...]
    tied: tuple[tuple[str, str, str], ...]
    unquantized: tuple[Unquantized, ...]
    k_eq_v: bool
    unknown: tuple[str, ...]
    platforms: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """What one release says of one quantization method.

    Attributes:
        name: As in `quant_method`.
        cls: Its config class, module and name.
        canonical: The method's own name, where several names share a class.
        min_capability: Compute capability (89 for sm_89); None where the source leaves it open.
        act_dtypes: Activation dtypes (`torch.bfloat16`), empty where open.
        config_files: Side files that vLLM reads for it.
        overrides: Method names its class can claim a checkpoint of another method for.
        mapped_lists: Attributes that the model's name mapper is applied to.
        skip_calls: How its ignore list is looked up: in which method, by which function, how.
        record: Everything recorded, for what has no field of its own.
    """

    name: str
    cls: str
    canonical: str
    min_capability: int | None
    act_dtypes: tuple[str, ...]
    config_files: tuple[str, ...]
    overrides: tuple[str, ...]
    mapped_lists: tuple[str, ...]
    skip_calls: tuple[dict[str, Any], ...]
    record: dict[str, Any]

    @classmethod
    def of(cls, name: str, record: dict[str, Any]) -> Method:
        """From its record."""
        capability = record["min_capability"]
        return cls(
            name=name,
            cls=record["class"],
            canonical=record["name"] if isinstance(record["name"], str) else "",
            min_capability=capability if isinstance(capability, int) else None,
            act_dtypes=_strings(record["act_dtypes"]),
            config_files=_strings(record["config_files"]),
            overrides=_strings(record.get("overrides")),
            mapped_lists=_strings(record.get("mapped_lists")),
            skip_calls=tuple(record.get("skip_calls", ())),
            record=record,
        )


def assemble(
    name: str, release: str, record: dict[str, Any], parts: Sequence[tuple[str, dict[str, Any]]]
) -> Architecture:
    """An architecture from its record and those of its classes, its own first."""
    own = parts[0][1] if parts else {}
    others = [(part, data) for part, data in parts[1:] if data.get("supports_quant")]
    quantized = {module for _, data in parts for module in data.get("quantized", ())}
    changes = [_change(p, c) for p, data in parts for c in data.get("changes", ())]
    return Architecture(
        name=name,
        release=release,
        cls=full_name(parts[0][0]) if parts else "",
        sections=tuple(record["sections"]),
        parts=tuple(part for part, _ in parts),
        supports_quant=own.get("supports_quant", False),
        packed=packed_of(own.get("packed")),
        mapper=mapper_of(own.get("mapper")),
        component_packed={p: packed_of(d["packed"]) for p, d in others if d.get("packed")},
        component_mapper={p: renames for p, d in others if (renames := _renames(d.get("mapper")))},
        stacked=_stacked(parts, changes),
        experts=_unique(_experts(e) for _, data in parts for e in data.get("experts", ())),
        changes=tuple(changes),
        inner=_unique(_inner(p, i) for p, data in parts for i in data.get("inner", ())),
        loaders=tuple((p, one) for p, data in parts for one in data.get("loaders", ())),
        skips=tuple((p, test) for p, data in parts for test in data.get("skips", ())),
        load_renames=tuple((p, one) for p, data in parts for one in data.get("load_renames", ())),
        tied=tuple((p, t["if"], t["then"]) for p, data in parts for t in data.get("tied", ())),
        unquantized=tuple(
            _unquantized(p, row, quantized)
            for p, data in parts
            for row in data.get("unquantized", ())
        ),
        k_eq_v=record.get("k_eq_v", False),
        unknown=tuple(record.get("unknown", ())),
        platforms=record.get("platforms", {}),
    )


def full_name(part: str) -> str:
    """A class key with its package: `llama:LlamaModel` → `vllm.model_executor.models.llama:...`."""
    return part if part.startswith("vllm.") else f"{_MODELS}.{part}"


def packed_of(value: Any) -> Packed:
    """The settled entries of a recorded fused mapping."""
    entries = value.items() if isinstance(value, dict) else ()
    return {
        fused: tuple(shards)
        for fused, shards in entries
        if isinstance(shards, list) and all(isinstance(s, str) for s in shards)
    }


def mapper_of(value: Any) -> dict[str, Any]:
    """The settled entries of a recorded mapper."""
    tables = value.items() if isinstance(value, dict) else ()
    out: dict[str, Any] = {}
    for table, entries in tables:
        if isinstance(entries, dict) and not table.startswith("$"):
            settled = {k: v for k, v in entries.items() if not is_open(k, v)}
            if settled:
                out[table] = settled
    return out


def is_open(key: str, value: Any) -> bool:
    """Whether an entry of a recorded mapping is not settled by vLLM's source."""
    return key.startswith("$expr") or isinstance(value, dict)


def _renames(mapper: Any) -> dict[str, Any]:
    return {table: rows for table, rows in mapper_of(mapper).items() if table != "stacked"}


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _unique(values: Any) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))


def _change(part: str, record: dict[str, Any]) -> Change:
    key = record.get("key")
    return Change(
        part=part,
        method=record["method"],
        on=record["on"],
        attr=record["attr"],
        op=record["op"],
        key=key if isinstance(key, str) else "",
        value=record.get("value"),
        when=tuple(record.get("when", ())),
        defs=record.get("defs", {}),
    )


def _experts(names: list[Any]) -> tuple[str | None, ...]:
    return tuple("" if isinstance(name, dict) else name for name in names)


def _inner(part: str, record: dict[str, Any]) -> Inner:
    config = record.get("hf_config")
    return Inner(
        part=part,
        architectures=_strings(record.get("architectures")),
        hf_config=config.get("$expr", "") if isinstance(config, dict) else "",
    )


def _unquantized(part: str, row: dict[str, Any], quantized: set[str]) -> Unquantized:
    return Unquantized(
        part=part,
        module=row["module"],
        layer=row["layer"],
        certain=_WITHOUT_PIPELINE.issuperset(row.get("when", ()))
        and row["module"] not in quantized,
        when=tuple(row.get("when", ())),
    )


def _stacked(
    parts: Sequence[tuple[str, dict[str, Any]]], changes: Sequence[Change]
) -> tuple[tuple[str, str, Any], ...]:
    """The rows of the loaders' own lists and of the stacked tables of mappers, each once."""
    rows: dict[str, tuple[str, str, Any]] = {}
    mappers = [data.get("mapper") for _, data in parts]
    mappers += [change.value for change in changes if change.attr == "mapper"]
    for mapper in mappers:
        for shard, target in mapper_of(mapper).get("stacked", {}).items():
            rows.setdefault(f"{target[0]} {shard} {target[1]!r}", (target[0], shard, target[1]))
    for _, data in parts:
        for fused, shard, index in data.get("stacked", ()):
            rows.setdefault(f"{fused} {shard} {index!r}", (fused, shard, index))
    return tuple(rows.values())
