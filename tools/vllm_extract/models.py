"""The facts of architectures and their classes: how checkpoint names meet vLLM's modules."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.classes import MAPPINGS, is_property
from tools.vllm_extract.reach import MODEL_PACKAGES, in_models
from tools.vllm_extract.registry import Entry, Registry, resolve
from tools.vllm_extract.values import (
    ClassRef,
    FunctionRef,
    Instance,
    Json,
    RaisedError,
    UndecidedError,
    Unknown,
    Value,
    to_json,
)

if TYPE_CHECKING:
    from tools.vllm_extract.evaluate import Evaluator
    from tools.vllm_extract.reach import Reach

_TRANSFORMERS: Final = f"{MODEL_PACKAGES[0]}.transformers"
_UNDECIDED: Final = '"$expr'
_PLURAL: Final = {
    "change": "changes",
    "expert": "experts",
    "inner": "inner",
    "loader": "loaders",
    "skip": "skips",
    "tie": "tied",
    "rename": "load_renames",
    "load_mapper": "load_renames",
}


@dataclass(slots=True)
class Records:
    """What `describe` gives: by architecture name, and by the short name of a class."""

    architectures: dict[str, Json] = field(default_factory=dict)
    classes: dict[str, Json] = field(default_factory=dict)


def describe(
    reach: Reach, registry: Registry, others: list[Evaluator], k_eq_v_modules: set[str]
) -> Records:
    """One record per registered architecture and one per class that they are made of.

    Args:
        reach: Follows the classes on the main platform.
        registry: The architectures.
        others: Evaluators for the other platforms; where one differs, the record says how.
        k_eq_v_modules: Modules whose code reads the flag that v_proj is k_proj.
    """
    out = Records()
    for name, entry in registry.entries.items():
        cls = resolve(reach.ev, entry)
        record: dict[str, Json] = {"sections": list(entry.sections)}
        if isinstance(cls, str):
            record["unknown"] = [cls]
        else:
            record |= _architecture(reach, cls, out.classes, k_eq_v_modules)
        mine = {} if isinstance(cls, str) else _basics(reach.ev, cls)
        differs = {ev.platform: _difference(mine, ev, entry) for ev in others}
        if any(differs.values()):
            record["platforms"] = {k: v for k, v in differs.items() if v}
        out.architectures[name] = record
    return out


def mapping(ev: Evaluator, cls: ClassRef, attribute: str) -> Value:
    """One of the two mappings of a class, None if it has none (or an empty one)."""
    found = ev.classes.attribute(cls, attribute)
    if found is None:
        return None
    value = found.value
    if isinstance(value, FunctionRef):
        if not is_property(value.node):
            return Unknown.of(value.node)
        try:
            value = ev.functions.call(value, [Instance(cls)], {})
        except (UndecidedError, RaisedError):
            value = Unknown(f"property of {found.owner.key}")
    return value or None


def supports_quant(ev: Evaluator, cls: ClassRef) -> bool:
    """Whether the class hands its mappings to the quantization config itself."""
    bases = ev.classes.mro(cls)
    return any(isinstance(b, ClassRef) and b.name == "SupportsQuant" for b in bases)


def short(key: str) -> str:
    """A class key without the package that nearly all share: `llama:LlamaModel`."""
    return key.removeprefix(f"{MODEL_PACKAGES[0]}.")


def flag_modules(sites: list[dict[str, str]]) -> set[str]:
    """The modules of recorded statements, those of the models only."""
    return {site["module"] for site in sites if in_models(site["module"])}


def _basics(ev: Evaluator, cls: ClassRef) -> dict[str, Json]:
    out: dict[str, Json] = {"class": short(cls.key), "supports_quant": supports_quant(ev, cls)}
    for attribute, key in zip(MAPPINGS, ("packed", "mapper"), strict=True):
        value = mapping(ev, cls, attribute)
        if value is not None and to_json(value):
            out[key] = to_json(value)
    return out


def _difference(mine: dict[str, Json], ev: Evaluator, entry: Entry) -> dict[str, Json]:
    """What another platform has instead, None for what it lacks."""
    cls = resolve(ev, entry)
    if isinstance(cls, str):
        return {"unknown": [cls]} if mine else {}
    theirs = _basics(ev, cls)
    keys = ("class", "supports_quant", "packed", "mapper")
    return {k: theirs.get(k) for k in keys if theirs.get(k) != mine.get(k)}


def _architecture(
    reach: Reach, cls: ClassRef, classes: dict[str, Json], k_eq_v_modules: set[str]
) -> dict[str, Json]:
    """The classes it is made of, its own first, and what stays unknown about it."""
    components = reach.components(cls)
    parts = []
    for component in components:
        name = short(component.key)
        if name not in classes:
            classes[name] = _class(reach, component)
        if classes[name] or component is cls:
            parts.append(name)
    out: dict[str, Json] = {"parts": parts}
    if any(c.module.name in k_eq_v_modules for c in components):
        out["k_eq_v"] = True
    unknown = _unknown(reach.ev, cls, {name: classes[name] for name in parts})
    if unknown:
        out["unknown"] = unknown
    return out


def _class(reach: Reach, cls: ClassRef) -> dict[str, Json]:
    """What an instance of exactly this class does, inherited methods included."""
    out = _basics(reach.ev, cls)
    del out["class"]
    if not out["supports_quant"]:
        del out["supports_quant"]
    rows: dict[str, Json] = {}
    lists: dict[str, dict[str, Json]] = {}
    for owner, record in reach.observed(cls):
        data = record.data
        match record.kind:
            case "stacked":
                rows.setdefault(json.dumps(data), data)
                continue
            case "expert":
                data = [data.get(k) for k in ("gate", "down", "up")]
                if not any(n is not None for n in data):
                    continue
            case "change" if owner is not cls:
                data = {"class": short(owner.key), **data}
            case "linear":
                kind = "quantized" if data["quantized"] else "unquantized"
                kept = {k: v for k, v in data.items() if k != "quantized"}
                if data["module"]:
                    _append(lists, kind, data["module"] if data["quantized"] else kept)
                continue
        _append(lists, _PLURAL[record.kind], data)
    if rows:
        out["stacked"] = list(rows.values())
    return out | {key: list(values.values()) for key, values in lists.items()}


def _append(lists: dict[str, dict[str, Json]], key: str, value: Json) -> None:
    lists.setdefault(key, {}).setdefault(json.dumps(value, sort_keys=True), value)


def _unknown(ev: Evaluator, cls: ClassRef, parts: dict[str, Json]) -> list[str]:
    """Short names of what the source alone does not settle for an architecture."""
    out: list[str] = []
    if cls.module.name.startswith(_TRANSFORMERS):
        out.append("mappings-made-at-run-time")
    own = short(cls.key)
    undecided = [k for k in ("packed", "mapper") if _UNDECIDED in json.dumps(parts[own].get(k))]
    out += [f"{key}-undecided" for key in undecided]
    for name, part in parts.items():
        prefix = "" if name == own else "component-"
        out += [
            f"{prefix}{change['attr']}-set-at-construction"
            for change in part.get("changes", [])
            if _UNDECIDED in json.dumps(change.get("value"))
        ]
        if any("architectures" not in inner for inner in part.get("inner", [])):
            out.append("inner-model-named-by-config")
    out += [f"base-class {b.source}" for b in ev.classes.mro(cls) if isinstance(b, Unknown)]
    return list(dict.fromkeys(out))
