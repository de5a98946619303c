"""ModelOpt: one algorithm and a list of exclusions, or a recipe for each layer.

Source: vLLM 0.33.0, layers/quantization/modelopt.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.quantization.modelopt import ALGORITHMS, BLOCK_EXPERTS, CODECS
from quantgate.vllm.dialect import leaf
from quantgate.vllm.matching.decision import Decision, given, refused, skipped
from quantgate.vllm.matching.recipes import Recipes

if TYPE_CHECKING:
    from quantgate.quantization.modelopt import ModelOptDeclaration
    from quantgate.vllm.dialect import Dialect
    from quantgate.vllm.layers import Layer
    from quantgate.vllm.matching.lists import Lists

_TOWERS = ("vision_tower", "vision_model", "vit_large_projector")


class ModelOpt:
    """Decides by `quant_algo` and the exclusions, or by `quantized_layers`."""

    def __init__(self, declared: ModelOptDeclaration, lists: Lists) -> None:
        self._declared = declared
        self._dialect = lists.dialect
        self._packed = lists.packed
        self._ignore = lists.names(_excluded(declared, lists.dialect))
        self._recipes = Recipes(lists.keys(declared.layers))

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        declared = self._declared
        embedding = layer.cls == "VocabParallelEmbedding"
        if embedding and not declared.mixed:
            return Decision(None, "embeddings are never quantized")
        if layer.cls == "ParallelLMHead" and not self._dialect.modelopt_lm_head:
            return Decision(None, "lm_head is never quantized by this release")
        excluded = self._dialect.modelopt_excluded(layer.prefix, self._ignore, self._packed)
        if (dense := skipped(excluded, declared.excluded_key)) is not None:
            return dense
        experts = layer.cls == "RoutedExperts"
        if declared.mixed:
            return self._mixed(layer, experts=experts, embedding=embedding)
        if any(tower in layer.prefix for tower in _TOWERS):
            return Decision(None, "vision towers are never quantized")
        weights_only = declared.weights_only and self._dialect.modelopt_weights_only
        algorithm = "W4A16_NVFP4" if weights_only else declared.algorithm
        return given(declared.scheme(algorithm, experts=experts), "quant_algo")

    def _mixed(self, layer: Layer, *, experts: bool, embedding: bool) -> Decision:
        """By the recipe of the layer; one that its kind cannot take leaves it dense."""
        declared = self._declared
        shards = self._packed.get(leaf(layer.prefix), ())
        found = self._recipes.find(layer.prefix, shards)
        if len(found) > 1:
            schemes = tuple((s, declared.scheme(a)) for s, a in found)
            return refused("quantized_layers", schemes, "Mixed quant_algo within fused layer")
        algorithm = found[0][1] if found else ""
        codecs = CODECS if self._dialect.modelopt_codecs else ()
        blocks = BLOCK_EXPERTS if experts and self._dialect.modelopt_block_experts else ()
        if algorithm in codecs or algorithm in blocks:
            return given(declared.scheme(algorithm, experts=experts), "quantized_layers")
        # Other algorithms leave a Linear dense, and these an embedding.
        if algorithm in ALGORITHMS and not embedding:
            return given(declared.scheme(algorithm, experts=experts), "quantized_layers")
        return Decision(None, "quantized_layers", unreadable=bool(algorithm) and experts)


def _excluded(declared: ModelOptDeclaration, dialect: Dialect) -> tuple[str, ...]:
    """The list as this release reads it: `path*` stands for `path` and `path.*`."""
    if declared.excluded_key == "exclude_modules" and not dialect.modelopt_flat_excludes:
        return ()
    if not dialect.modelopt_wildcards:
        return declared.excluded
    return tuple(
        part
        for entry in declared.excluded
        for part in (
            (entry[:-1], f"{entry[:-1]}.*")
            if len(entry) >= 2 and entry[-1] == "*" and entry[-2] != "."
            else (entry,)
        )
    )
