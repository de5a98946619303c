"""From what was built to what is written down: sizes as keys of the config, and when they hold.

A record of the result, by architecture:

```
{"always_tied": true, "tied": true,          # one embedding whatever the config says; the default
 "defaults": {"head_dim": 128},              # a number, or an expression
 "layer": {"self_attn.q_proj": ENTRY, ...},  # below `layers.N.`, vLLM's path, the shard's name
 "outer": {"model.norm": ENTRY, ...}}
ENTRY: {"size": [N, K], "shape": [..], "bias": true, "in": "every" | "sparse" | "dense" | "some",
        "dense": true,                       # its class never quantizes it
        "when": {"use_qk_norm": true}}
```

The N of a fused module is a sum (`a+b`). `bias` may be the name of the key that decides it. An
expression that no key explains is null.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from quantgate.vllm.built import evaluate
from quantgate.vllm.naming import USUAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from quantgate.vllm.facts import Architecture

_LAYER = re.compile(r"^(?:.*\.)?(?:layers|h|blocks)\.(\d+)\.(.+)$")
_ROUTED = re.compile(r"^(.*\.experts|experts)(?:\.routed_experts)?$")
Given = dict[str, int]


def expression(values: Sequence[int], given: Sequence[Given]) -> str | None:
    """The simplest expression of keys with these values, None if there is none."""
    keys = sorted(set(given[0]).intersection(*given[1:]))
    for text in _candidates(keys):
        if all(evaluate(text, g.get) == v for g, v in zip(given, values, strict=True)):
            return text
    return None


def _candidates(keys: Sequence[str]) -> Iterator[str]:
    pairs = list(itertools.combinations(keys, 2))
    shares = [
        f"{a}//{b}" for a, b in itertools.permutations(keys, 2) if "head" in b and "head" not in a
    ]
    yield from keys
    yield from (f"{a}*{b}" for a, b in pairs)
    yield from shares
    yield from (f"{share}*{c}" for share, c in itertools.product(shares, keys) if "head" in c)
    # q_proj where half of it gates the output
    yield from (f"2*{a}*{b}" for a, b in pairs if "head" in a and "head" in b)


def solve(row: Mapping[str, Any], facts: Architecture) -> dict[str, Any] | None:
    """The record of an architecture from its row; None where nothing holds."""
    given = [build["given"] for build in row["builds"]]
    names = _Names(facts)
    builds = [names.entries(build["modules"]) for build in row["builds"]]
    switched = {k: names.entries(modules) for k, modules in row["switched"] if modules}
    quantized = names.entries(row.get("quantized") or {})
    layer: dict[str, Any] = {}
    outer: dict[str, Any] = {}
    for path, found in builds[0].items():
        others = [b.get(path) for b in builds[1:]]
        if None in others:
            continue
        entry = _entry([found, *(o for o in others if o is not None)], given)
        _depend(entry, path, found, row, switched)
        if quantized.get(path, {}).get("dense"):
            entry["dense"] = True
        if path.startswith("layers."):
            layer[path.removeprefix("layers.")] = entry
        else:
            outer[path] = entry
    record: dict[str, Any] = {}
    tied = row["switches"].get("tie_word_embeddings")
    if tied is not None:
        record["tied"] = tied
        untied = switched.get("tie_word_embeddings") if tied else builds[0]
        if untied is not None and not any(e["kind"] == "head" for e in untied.values()):
            record["always_tied"] = True
    defaults = _defaults(row, layer, names)
    if defaults:
        record["defaults"] = defaults
    return {**record, "layer": layer, "outer": outer} if layer else None


class _Names:
    """Entries by path: layers under one name, fused ones also by the names of their shards."""

    def __init__(self, facts: Architecture) -> None:
        shards: dict[str, list[str]] = defaultdict(list)
        for fused, shard, _ in facts.stacked:
            shards[fused.strip(".")].append(shard.strip("."))
        known = {f: tuple(s) for f, s in shards.items()}
        self._shards = {**USUAL, **facts.packed, **known}
        self._experts = next((names for names in facts.experts if all(names)), None)

    def entries(self, modules: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Path → sizes, of one build; what differs between layers has no size."""
        layers: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
        found: dict[str, dict[str, Any]] = {}
        for name, module in modules.items():
            match = _LAYER.match(name)
            for path, entry in self._unfused(match[2] if match else name, module):
                if match:
                    layers[path][int(match[1])] = entry
                else:
                    found[path] = entry
        count = 1 + max((i for by in layers.values() for i in by), default=0)
        sparse = {i for path, by in layers.items() if ".experts.*." in f".{path}" for i in by}
        for path, by in layers.items():
            places = set(by)
            where = (
                "every"
                if len(places) == count
                else "sparse"
                if sparse and places == sparse
                else "dense"
                if sparse and places == set(range(count)) - sparse
                else "some"
            )
            entries = list(by.values())
            one = dict(entries[0], where=where)
            if any(
                e.get("size") != one.get("size") or e.get("shape") != one.get("shape")
                for e in entries
            ):
                one.pop("size", None)
                one.pop("shape", None)
            if any(e.get("bias") != one.get("bias") for e in entries):
                one["bias"] = None
            found[f"layers.{path}"] = one
        return found

    def _unfused(self, path: str, module: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        kind = module["kind"]
        if kind == "other":
            return self._other(path, module["shapes"])
        sizes, width = module["out"], module["in"]
        base = {"kind": kind, "bias": module.get("bias"), "dense": module.get("dense")}
        parent, dot, leaf = path.rpartition(".")
        rows = [(path, {**base, "size": [*sizes, width]})]
        shards = self._shards.get(leaf, ())
        if len(sizes) > 1 and len(shards) == len(sizes):
            rows += [
                (f"{parent}{dot}{shard}", {**base, "size": [size, width]})
                for shard, size in zip(shards, sizes, strict=True)
            ]
        return rows

    def _other(
        self, path: str, shapes: Mapping[str, list[int]]
    ) -> list[tuple[str, dict[str, Any]]]:
        routed = _ROUTED.match(path)
        if routed and "w2_weight" in shapes and len(shapes["w2_weight"]) == 3:
            if self._experts is None:
                return []
            _, rows, columns = shapes["w2_weight"]
            gate, down, up = self._experts
            return [
                (f"{routed[1]}.*.{gate}", {"kind": "expert", "size": [columns, rows]}),
                (f"{routed[1]}.*.{up}", {"kind": "expert", "size": [columns, rows]}),
                (f"{routed[1]}.*.{down}", {"kind": "expert", "size": [rows, columns]}),
            ]
        if "weight" not in shapes:
            return []
        return [(path, {"kind": "other", "shape": shapes["weight"], "bias": "bias" in shapes})]


def _entry(found: Sequence[dict[str, Any]], given: Sequence[Given]) -> dict[str, Any]:
    first = found[0]
    entry: dict[str, Any] = {}
    for key in ("size", "shape"):
        sizes = [f.get(key) for f in found]
        if any(s is None or len(s) != len(first[key] or ()) for s in sizes):
            continue
        parts = [expression([s[i] for s in sizes if s], given) for i in range(len(first[key]))]
        if key == "size":
            *rows, width = parts
            known = [row for row in rows if row is not None]
            parts = ["+".join(known) if len(known) == len(rows) else None, width]
        entry[key] = parts
    if first.get("bias"):
        entry["bias"] = True
    if "where" in first:
        entry["in"] = first["where"]
    return entry


def _depend(
    entry: dict[str, Any],
    path: str,
    found: Mapping[str, Any],
    row: Mapping[str, Any],
    switched: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write down the keys that the entry hangs on, with the values it was built with."""
    when = {}
    for key, modules in switched.items():
        other, value = modules.get(path), row["switches"][key]
        if other is None or any(other.get(k) != found.get(k) for k in ("size", "shape", "where")):
            when[key] = value
        elif other.get("bias") != found.get("bias"):
            entry["bias"] = key if type(value) is bool and found.get("bias") == value else None
    if when:
        entry["when"] = when


def _defaults(row: Mapping[str, Any], layer: Mapping[str, Any], names: _Names) -> dict[str, Any]:
    """What a key is when config.json lacks it, found from the sizes that hang on it."""
    found: dict[str, Any] = {}
    for key in ("head_dim", "num_key_value_heads"):
        rows = [
            (given, modules) for name, given, modules in row["defaults"] if name == key and modules
        ]
        if len(rows) != len(row["builds"]):
            continue
        for path, entry in layer.items():
            size = entry.get("size", [None])[0]
            factors = str(size).split("*")
            if key not in factors or not all(f == key or f in rows[0][0] for f in factors):
                continue
            values = []
            for given, modules in rows:
                built = names.entries(modules).get(f"layers.{path}", {}).get("size")
                rest = 1
                for factor in factors:
                    rest *= given[factor] if factor != key else 1
                if built and built[0] % rest == 0:
                    values.append(built[0] // rest)
            if len(values) == len(rows):
                given = [{k: v for k, v in g.items() if k != key} for g, _ in rows]
                value = values[0] if len(set(values)) == 1 else expression(values, given)
                if value is not None:
                    found[key] = value
                break
    return found
