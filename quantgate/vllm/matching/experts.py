"""Methods that look at nothing but the experts: mxfp4 and experts_int8.

Source: vLLM 0.33.0, layers/quantization/mxfp4.py and experts_int8.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.vllm.matching.decision import Decision

if TYPE_CHECKING:
    from quantgate.quantization.mxfp4 import Mxfp4Declaration
    from quantgate.vllm.layers import Layer


class Mxfp4:
    """Quantizes every expert, however its weights are stored."""

    def __init__(self, declared: Mxfp4Declaration) -> None:
        self._declared = declared

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        if layer.cls != "RoutedExperts":
            return Decision(None, "mxfp4 quantizes experts only")
        fused = layer.modules[0].rpartition(".")[2] == "experts"
        return Decision(self._declared.scheme(fused=fused), "every expert")


class ExpertsInt8:
    """Quantizes while loading, from dense weights."""

    def decide(self, layer: Layer) -> Decision:
        """Every layer is stored dense."""
        return Decision(None, "experts_int8 reads dense weights")
