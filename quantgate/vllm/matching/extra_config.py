"""AutoRound's `extra_config`: which settings a layer gets.

Source: vLLM 0.33.0, layers/quantization/inc/config_parser.py INCConfigParser and inc.py
get_quant_method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.quantization.auto_round import DENSE, Settings
from quantgate.vllm.patterns import regex_found

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quantgate.vllm.dialect import Packed
    from quantgate.vllm.layers import Layer

_SPECIAL = frozenset(r"*+?^$()[]{}|\\")


class ExtraConfig:
    """The entries of one block in vLLM's names, and the settings of everything else."""

    def __init__(
        self, base: Settings, entries: Mapping[str, Mapping[str, Any]], blocks: Sequence[str]
    ) -> None:
        self._base = base
        self._entries = entries
        self._blocks = tuple(blocks)
        self._order = {name: i for i, name in enumerate(entries)}
        self._patterns = [name for name in entries if not _SPECIAL.isdisjoint(name)]

    def settings(self, layer: Layer, packed: Packed) -> tuple[tuple[str, Settings], ...]:
        """(name, settings) that decide; several where the shards are told different things."""
        name = layer.prefix
        for key in (name, f"model.{name}"):
            entry = self._entries.get(key)
            if entry is not None and Settings(16, -1, sym=True).changed(entry).dense:
                return ((key, DENSE),)
        if name in self._entries:
            return ((name, self._of(name)),)
        parts = name.split(".")
        ends = [e for i in range(1, len(parts)) if (e := ".".join(parts[i:])) in self._entries]
        if ends:
            first = min(ends, key=self._order.__getitem__)
            return ((first, self._of(first)),)
        quantized = layer.cls != "ParallelLMHead"
        if self._blocks:
            # Some classes take names without `model.`, which vLLM's own layers always have.
            quantized = name.startswith(self._blocks) or f"model.{name}".startswith(self._blocks)
        for fused, shards in packed.items() if self._entries else ():
            if name.count(fused) != 1:
                continue
            names = {s: name.replace(fused, s) for s in shards}
            if any(self._entry(n) is not None for n in names.values()):
                found = tuple((s, self._of(n, quantized=quantized)) for s, n in names.items())
                return found if len({s for _, s in found}) > 1 else found[:1]
        return ((name, self._of(name, quantized=quantized)),)

    def _of(self, name: str, *, quantized: bool = True) -> Settings:
        base = self._base if quantized else DENSE
        entry = self._entry(name)
        return base if entry is None else base.changed(entry)

    def _entry(self, name: str) -> Mapping[str, Any] | None:
        """The entry of this name, else of the first pattern that is found in it."""
        if name in self._entries:
            return self._entries[name]
        found = next((p for p in self._patterns if regex_found(p, name)), None)
        return None if found is None else self._entries[found]
