"""Quark: an exclude list, then the first configuration that names the layer.

Source: vLLM 0.33.0, layers/quantization/quark/quark.py.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from quantgate.vllm.dialect import leaf, shard_name
from quantgate.vllm.matching.decision import Decision, given, refused, skipped

if TYPE_CHECKING:
    from quantgate.quantization.quark import Config, QuarkDeclaration
    from quantgate.vllm.layers import Layer
    from quantgate.vllm.matching.lists import Lists


class Quark:
    """Decides by `exclude`, `layer_quant_config` and `global_quant_config`."""

    def __init__(self, declared: QuarkDeclaration, lists: Lists) -> None:
        self._declared = declared
        self._dialect = lists.dialect
        self._packed = lists.packed
        self._ignore = lists.entries(declared.excluded)
        named = ((lists.naming.entry(n), c) for n, c in declared.by_name)
        self._configs = tuple((n, c) for n, c in named if n is not None)

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding"}:
            return Decision(None, "never quantized by quark")
        experts = layer.cls == "RoutedExperts"
        below = f"{layer.prefix}."
        if experts and any(e == layer.prefix or e.startswith(below) for e in self._ignore.all):
            return Decision(None, "exclude")
        excluded = self._dialect.ignored(layer.prefix, self._ignore, self._packed)
        if (dense := skipped(excluded, "exclude")) is not None:
            return dense
        names = self._packed.get(leaf(layer.prefix), ())
        found = {s: self._config(shard_name(layer.prefix, s)) for s in names}
        if len({c.text if c else "" for c in found.values()}) > 1:
            schemes = tuple((s, c.scheme if c else None) for s, c in found.items())
            error = "Found a different quantization configuration for"
            return refused("layer_quant_config", schemes, error)
        config = next(iter(found.values())) if found else self._config(layer.prefix)
        if config is None:
            return Decision(None, "global_quant_config", unreadable=True)
        everywhere = config is self._declared.everywhere
        by = "global_quant_config" if everywhere else "layer_quant_config"
        return given(config.experts if experts else config.scheme, by)

    def _config(self, name: str) -> Config | None:
        """The first entry for a name; one without `*` counts if it *contains* the name."""
        for pattern, config in self._configs:
            if fnmatchcase(name, pattern) if "*" in pattern else name in pattern:
                return config
        return self._declared.everywhere
