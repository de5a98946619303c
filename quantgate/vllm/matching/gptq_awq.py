"""GPTQ and AWQ: lists of substrings, taken from the headers where the declaration has none.

Source: vLLM 0.33.0, auto_gptq.py, auto_awq.py and utils/gptq_utils.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.vllm.dialect import Disagreement
from quantgate.vllm.matching.decision import Decision, divided, given, skipped
from quantgate.vllm.patterns import regex_matches

if TYPE_CHECKING:
    from quantgate.quantization.awq import AwqDeclaration
    from quantgate.quantization.gptq import GptqDeclaration
    from quantgate.vllm.layers import Layer
    from quantgate.vllm.matching.lists import Lists


class Gptq:
    """Decides by `modules_in_block_to_quantize` and the patterns of `dynamic`."""

    def __init__(self, declared: GptqDeclaration, lists: Lists) -> None:
        self._declared = declared
        self._dialect = lists.dialect
        self._packed = lists.packed
        self._listed = lists.names(declared.modules)
        self._derived = frozenset(lists.names(lists.stored.quantized))

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        if layer.cls == "ParallelLMHead" and not self._declared.lm_head:
            return Decision(None, "lm_head is false")
        if layer.cls == "VocabParallelEmbedding":
            return Decision(None, "embeddings are never quantized")
        if layer.cls != "RoutedExperts":
            quantized = self._quantized(layer.prefix)
            if isinstance(quantized, Disagreement):
                return divided(quantized, "modules_in_block_to_quantize")
            if not quantized:
                return Decision(None, "not in modules_in_block_to_quantize")
        for rule in self._declared.dynamic:
            if regex_matches(rule.pattern, layer.prefix):
                if rule.skip:
                    return Decision(None, f"dynamic -:{rule.pattern}")
                return given(self._declared.scheme(rule.overrides), f"dynamic {rule.pattern}")
        return given(self._declared.scheme(), "bits and group_size")

    def _quantized(self, name: str) -> bool | Disagreement:
        if self._declared.modules:
            return self._dialect.gptq_listed(name, self._listed, self._packed)
        if not self._dialect.gptq_lists or not self._derived:
            return True
        return self._dialect.unanimous(
            name, self._packed, lambda part: _contains_any(part, self._derived)
        )


class Awq:
    """Decides by `modules_to_not_convert`."""

    def __init__(self, declared: AwqDeclaration, lists: Lists) -> None:
        self._declared = declared
        self._dialect = lists.dialect
        self._packed = lists.packed
        self._ignore = lists.names(declared.not_converted)
        self._derived = frozenset(lists.names(lists.stored.dense))

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        if layer.cls == "VocabParallelEmbedding":
            return Decision(None, "embeddings are never quantized")
        if layer.cls == "ParallelLMHead" and not self._declared.lm_head:
            return Decision(None, "lm_head is false")
        if (dense := skipped(self._skipped(layer.prefix), "modules_to_not_convert")) is not None:
            return dense
        return given(self._declared.scheme(), "bits and group_size")

    def _skipped(self, name: str) -> bool | Disagreement:
        if self._declared.not_converted:
            return self._dialect.skipped(name, self._ignore, self._packed, "substring")
        return _contains_any(name, self._derived) or self._dialect.unanimous(
            name, self._packed, lambda part: _contains_any(part, self._derived)
        )


def _contains_any(name: str, modules: frozenset[str]) -> bool:
    """Whether any of the modules is a run of components of the name.

    vLLM tests every module name as a substring; names that are one without being a run of whole
    components do not occur, and a set can be asked for the runs at once.
    """
    parts = name.split(".")
    return any(
        ".".join(parts[i:j]) in modules
        for i in range(len(parts))
        for j in range(i + 1, len(parts) + 1)
    )
