"""bitsandbytes: the list is asked for components and leading paths of vLLM's own names.

Source: vLLM 0.27.1, the last release that has it: layers/quantization/bitsandbytes.py
is_layer_skipped_bnb.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.vllm.dialect import names_component
from quantgate.vllm.matching.decision import Decision, given

if TYPE_CHECKING:
    from quantgate.quantization.bitsandbytes import BitsAndBytesDeclaration
    from quantgate.vllm.layers import Layer


class BitsAndBytes:
    """Decides by `llm_int8_skip_modules`, which is never renamed."""

    def __init__(self, declared: BitsAndBytesDeclaration) -> None:
        self._declared = declared

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        declared = self._declared
        if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding"}:
            return Decision(None, "never quantized by bitsandbytes")
        scheme = None if declared.problems else declared.scheme()
        if layer.cls == "RoutedExperts":
            # The list is not asked for experts.
            return given(None if declared.eight else scheme, "every expert")
        if any(names_component(entry, layer.prefix) for entry in declared.skipped):
            return Decision(None, "llm_int8_skip_modules")
        return given(scheme, "every Linear")
