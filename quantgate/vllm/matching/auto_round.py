"""AutoRound: one setting for all blocks, changed by `extra_config`.

Source: vLLM 0.33.0, layers/quantization/inc/inc.py get_quant_method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.vllm.matching.decision import Decision, given, refused
from quantgate.vllm.matching.extra_config import ExtraConfig

if TYPE_CHECKING:
    from quantgate.quantization.auto_round import AutoRoundDeclaration
    from quantgate.vllm.layers import Layer
    from quantgate.vllm.matching.lists import Lists


class AutoRound:
    """Decides by `extra_config` and `block_name_to_quantize`."""

    def __init__(self, declared: AutoRoundDeclaration, lists: Lists) -> None:
        self._declared = declared
        self._packed = lists.packed
        self._extra = (
            None
            if declared.settings is None
            else ExtraConfig(
                declared.settings, lists.keys(declared.extra), lists.names(declared.blocks)
            )
        )

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        if layer.cls == "VocabParallelEmbedding":
            return Decision(None, "embeddings are never quantized")
        if self._extra is None:
            return Decision(None, "bits and group_size", unreadable=True)
        found = self._extra.settings(layer, self._packed)
        schemes = tuple((n, None if s.dense else self._declared.scheme(s)) for n, s in found)
        if len(found) > 1:
            return refused("extra_config", schemes, "requires consistent quant config for")
        (_, settings), (_, scheme) = found[0], schemes[0]
        if settings.dense:
            return Decision(None, "extra_config or block_name_to_quantize")
        return given(scheme, "bits and group_size")
