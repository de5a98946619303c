"""fp8 and fbgemm_fp8: everything is quantized but what a list names.

Source: vLLM 0.33.0, fp8.py, fbgemm_fp8.py and utils/quant_utils.py is_layer_skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.vllm.matching.decision import Decision, skipped

if TYPE_CHECKING:
    from quantgate.quantization.fbgemm import FbgemmDeclaration
    from quantgate.quantization.fp8 import Fp8Declaration
    from quantgate.vllm.layers import Layer
    from quantgate.vllm.matching.lists import Lists


class Fp8:
    """Decides for Linears and experts."""

    def __init__(self, declared: Fp8Declaration, lists: Lists) -> None:
        self._declared = declared
        self._dialect = lists.dialect
        self._packed = lists.packed
        self._ignore = lists.names(declared.ignored)

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding"}:
            return Decision(None, "never quantized by fp8")
        found = self._dialect.skipped(layer.prefix, self._ignore, self._packed)
        if (dense := skipped(found, self._declared.ignored_key)) is not None:
            return dense
        return Decision(self._declared.scheme(), "every Linear")


class Fbgemm:
    """As fp8, of Linears only; the list is not renamed (no apply_vllm_mapper)."""

    def __init__(self, declared: FbgemmDeclaration, lists: Lists) -> None:
        self._declared = declared
        self._dialect = lists.dialect
        self._packed = lists.packed

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding", "RoutedExperts"}:
            return Decision(None, "fbgemm_fp8 quantizes Linears only")
        found = self._dialect.skipped(layer.prefix, self._declared.not_converted, self._packed)
        if (dense := skipped(found, "modules_to_not_convert")) is not None:
            return dense
        return Decision(self._declared.scheme(), "every Linear")
