"""`quantized_layers` of a mixed ModelOpt checkpoint: which algorithm a layer gets.

Source: vLLM 0.33.0, layers/quantization/modelopt.py ModelOptMixedPrecisionConfig
_resolve_quant_algo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.vllm.dialect import leaf

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_USUAL_SHARDS = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}


class Recipes:
    """`quantized_layers` of a mixed ModelOpt checkpoint (modelopt.py _resolve_quant_algo)."""

    def __init__(self, algorithms: Mapping[str, str]) -> None:
        self._algorithms = algorithms
        self._below: dict[str, str] = {}
        for name, algorithm in algorithms.items():
            parent = name.rpartition(".")[0]
            while parent:
                self._below.setdefault(parent, algorithm)
                parent = parent.rpartition(".")[0]

    def find(self, prefix: str, shards: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """(name, algorithm) that decides; several where the shards disagree, none if unlisted."""
        for name in _spellings(prefix):
            if name in self._algorithms:
                return ((name, self._algorithms[name]),)
        projection = leaf(prefix)
        for names in (tuple(shards), _USUAL_SHARDS.get(projection, ())):
            listed: dict[str, str] = {}
            for parent in _spellings(prefix.rpartition(".")[0]):
                for shard in names:
                    algorithm = self._algorithms.get(f"{parent}.{shard}")
                    if algorithm is not None:
                        listed.setdefault(shard, algorithm)
            if listed:
                return (
                    tuple(listed.items())
                    if len({*listed.values()}) > 1
                    else (next(iter(listed.items())),)
                )
        for name in _spellings(prefix):
            if name in self._below:
                return ((name, self._below[name]),)
        parent = prefix.removesuffix(".experts")
        if parent != prefix and parent in self._below:
            return ((parent, self._below[parent]),)
        return ()


def _spellings(prefix: str) -> tuple[str, ...]:
    """A vLLM name and the ways in which checkpoints of wrapped models write it."""
    inner, outer = "language_model.model.", "model.language_model."
    if prefix.endswith(".lm_head"):
        return prefix, "lm_head"
    if prefix.startswith(inner):
        return prefix, outer + prefix.removeprefix(inner)
    if prefix.startswith(outer):
        return prefix, inner + prefix.removeprefix(outer)
    return (prefix,)
