"""What vLLM builds for an architecture: which modules, how large, hanging on which config keys.

Found out by building each architecture with sizes of our choice (`tools/vllm_probe`, vLLM 0.32.0)
and kept in `facts/built.json`: sizes as keys of config.json, so that a module's true size needs no
table of formulas. Where a key decides whether a module is there, or how large it is, an entry says
so, and it holds only for configs with that value.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

from quantgate.vllm.naming import naming_of
from quantgate.vllm.structure import text_config

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from quantgate.vllm.naming import Naming

RELEASE = "0.32.0"
"""The release that the facts were found with; sizes do not depend on it."""

_LAYER = re.compile(r"^(?:.*\.)?(?:layers|h|blocks)\.\d+\.(.+)$")
_EXPERT = re.compile(r"(?<=experts\.)\d+(?=\.)")
_MAX = 1 << 31
_SHARED = "shared_expert"
# What decides which layers have experts; the files show that.
_WHICH_SPARSE = ("first_k_dense_replace", "decoder_sparse_step", "interleave_moe_layer_step")
_KEY = re.compile(r"[a-z_]\w*")
# Config classes read one of these names for another (transformers, `attribute_map`).
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


@dataclass(frozen=True)
class Built:
    """What vLLM builds for one config.json.

    Attributes:
        record: The architecture's line of `facts/built.json` (format: `tools/vllm_probe/solve.py`).
        text: The part of config.json that describes the decoder.
        naming: The names of the release that the facts were found with.
    """

    record: Mapping[str, Any]
    text: Mapping[str, Any]
    naming: Naming

    @property
    def always_tied(self) -> bool:
        """Whether the embedding is the head whatever the config says."""
        return bool(self.record.get("always_tied"))

    @property
    def tied(self) -> bool | None:
        """What `tie_word_embeddings` is where the config does not say."""
        tied = self.record.get("tied")
        return tied if type(tied) is bool else None

    @property
    def root(self) -> str | None:
        """The module that holds the layers, in vLLM's names; None if that is not known."""
        parents = {n.rpartition(".")[0] for n in self.record["outer"] if "embed" in n}
        return parents.pop() if len(parents) == 1 else None

    def has_beside_layers(self, module: str) -> bool | None:
        """Whether the class has a checkpoint module that lies beside its layers.

        None for one that lies elsewhere, or is dropped.
        """
        name = self.naming.module(module)
        if name is None or self.root is None or name.rpartition(".")[0] != self.root:
            return None
        return name in self.record["outer"]

    def size(self, module: str) -> tuple[int | None, int | None] | None:
        """(N, K) of a linear module or embedding by its checkpoint name, None if not known."""
        size = (self.entry(module) or {}).get("size")
        if size is None or len(size) != 2:
            return None
        return self._number(size[0]), self._number(size[1])

    def width(self, module: str) -> int | None:
        """Length of the one-dimensional weight of a module (a norm), None if not known."""
        shape = (self.entry(module) or {}).get("shape")
        return self._number(shape[0]) if shape is not None and len(shape) == 1 else None

    def entry(self, module: str) -> Mapping[str, Any] | None:
        """What is known of a checkpoint module, if it holds for this config."""
        name = self.naming.module(module)
        if name is None:
            return None
        layer = _LAYER.match(name)
        table = self.record["layer"] if layer else self.record["outer"]
        found = table.get(_EXPERT.sub("*", layer[1]) if layer else name)
        return found if found is not None and self.holds(found) else None

    def holds(self, entry: Mapping[str, Any], but: Collection[str] = ()) -> bool:
        """Whether the keys that an entry hangs on have the values it was found with.

        Keys in `but` are not looked at.
        """
        when = entry.get("when", {}).items()
        return all(self.text.get(k, v) == v for k, v in when if k not in but)

    def wanted(self) -> Iterator[tuple[str, str]]:
        """(path below a layer, `every` | `sparse` | `dense`) of what vLLM builds in those layers.

        Shards by their own names, routed experts left out. What lies beside experts is built with
        them, though the config that was probed had experts in every layer. What the config makes
        0 or null (the number of shared experts, say) is not built.
        """
        table = self.record["layer"]
        blocks = {head for p in table for head, dot, _ in [p.partition(".experts.")] if dot}
        entries = {p: e for p, e in table.items() if self.holds(e, but=_WHICH_SPARSE)}
        unshared = any(_SHARED in p and self._denied(e) for p, e in entries.items())
        for path, entry in entries.items():
            where = entry.get("in", "some")
            fused = path.rpartition(".")[2] in self.naming.fused
            if where == "some" or fused or "experts.*." in path or self._denied(entry):
                continue
            if unshared and _SHARED in path:
                continue
            if where == "every" and any(path.startswith(f"{b}.") for b in blocks):
                yield path, "sparse"
            elif self.holds(entry):
                yield path, where

    def _denied(self, entry: Mapping[str, Any]) -> bool:
        """Whether the config says 0 or null where an entry has a size."""
        sizes = entry.get("size") or entry.get("shape") or ()
        keys = {k for s in sizes if s is not None for k in _KEY.findall(s)} - self._defaults.keys()
        return any(self.text.get(k, 1) in (0, None) for k in keys)

    @cached_property
    def _numbers(self) -> dict[str | None, int | None]:
        return {}

    @cached_property
    def _defaults(self) -> Mapping[str, Any]:
        defaults: Mapping[str, Any] = self.record.get("defaults", {})
        return defaults

    def _number(self, expression: str | None) -> int | None:
        # A mixture of experts asks for the same few expressions tens of thousands of times.
        if expression not in self._numbers:
            value = None if expression is None else evaluate(expression, self._key)
            self._numbers[expression] = value
        return self._numbers[expression]

    def _key(self, key: str) -> int | None:
        if isinstance(self.text.get(f"{key}_per_layer"), list):
            return None
        value = self.text.get(key)
        if value is None and key in _EXPERTS:
            value = next((v for k in _EXPERTS if (v := self.text.get(k)) is not None), None)
        if value is None and key in self._defaults:
            default = self._defaults[key]
            return default if type(default) is int else self._number(default)
        return value if type(value) is int and 0 < value < _MAX else None


def evaluate(expression: str, key: Callable[[str], int | None]) -> int | None:
    """The value of `a`, `2*a*b`, `a//b*c` or a sum of those.

    None where a key has no value or a division is not exact.
    """
    total = 0
    for term in expression.split("+"):
        value = 1
        for factor in term.split("*"):
            name, _, divisor = factor.partition("//")
            number = int(name) if name.isdigit() else key(name)
            by = key(divisor) if divisor else 1
            if number is None or not by or number % by:
                return None
            value *= number // by
        total += value
    return total


def built_for(config: Mapping[str, Any]) -> Built | None:
    """What vLLM builds for a config.json, None for an architecture without such facts."""
    names = config.get("architectures")
    first = names[0] if isinstance(names, list) and names else None
    record = _record(first) if isinstance(first, str) else None
    if record is None:
        return None
    return Built(record, text_config(config), naming_of(config, RELEASE))


@cache
def _text() -> str:
    path = resources.files("quantgate.vllm.facts") / "built.json"
    return path.read_text(encoding="utf-8")


@cache
def _record(architecture: str) -> Mapping[str, Any] | None:
    """The line of an architecture; the rest of the file is not parsed."""
    start = f"\n{json.dumps(architecture)}: "
    at = _text().find(start)
    if at < 0:
        return None
    end = _text().find("\n", at + 1)
    record: Mapping[str, Any] = json.loads(_text()[at + len(start) : end].rstrip(","))
    return record


def architectures() -> tuple[str, ...]:
    """The architectures that there are such facts of."""
    return tuple(json.loads(_text()))
