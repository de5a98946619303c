"""torchao: names are those of vLLM's own layers, fused ones included, and are never renamed.

Source: vLLM 0.33.0, layers/quantization/torchao.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.quantization.declaration import ProblemKind
from quantgate.vllm.dialect import names_run
from quantgate.vllm.matching.decision import Decision, given
from quantgate.vllm.patterns import regex_matches

if TYPE_CHECKING:
    from quantgate.quantization.torchao import TorchAoDeclaration
    from quantgate.vllm.dialect import Dialect
    from quantgate.vllm.layers import Layer


class TorchAo:
    """Decides by `modules_to_not_convert` and `module_fqn_to_config`."""

    def __init__(self, declared: TorchAoDeclaration, dialect: Dialect) -> None:
        self._declared = declared
        self._dialect = dialect

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        declared = self._declared
        if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding", "RoutedExperts"}:
            return Decision(None, "torchao quantizes Linears only")
        if any(names_run(entry, layer.prefix) for entry in declared.skipped):
            return Decision(None, "modules_to_not_convert")
        if any(p.kind is not ProblemKind.VALUE for p in declared.problems):
            return Decision(None, "quant_type", unreadable=True)
        if not declared.per_module:
            recipe = declared.recipe
            return given(recipe.scheme if recipe else None, "every Linear")
        if layer.prefix in declared.by_name:
            recipe = declared.by_name[layer.prefix]
            return given(recipe.scheme if recipe else None, layer.prefix)
        for pattern, recipe in declared.by_name.items():
            if not pattern.startswith("re:") or not self._dialect.torchao_patterns:
                continue
            if regex_matches(f"(?:{pattern.removeprefix('re:')})$", layer.prefix):
                return given(recipe.scheme if recipe else None, pattern)
        if declared.recipe is None:
            return Decision(None, "no entry of module_fqn_to_config")
        return given(declared.recipe.scheme, "_default")
