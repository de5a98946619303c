"""Formats of other engines that vLLM does not load, known by name and by their tensors.

Which tensors they write: exllamav2 and exllamav3 (`ext.py`, `linear.py`), MLX `nn.QuantizedLinear`,
and for the others the layers that Transformers replaces (integrations/*.py of 5.19).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        method: Its `quant_method`.
        label: What such a model is, after "The model is".
        leaves: Tensors that each of its modules has and no module of another format.
        weight: Type of the module's `weight`, where that must be known too.
    """

    method: str
    label: str
    leaves: frozenset[str] = frozenset()
    weight: str = ""


def _format(method: str, label: str, leaves: str = "", weight: str = "") -> Format:
    return Format(method, label, frozenset(leaves.split()), weight)


# The first whose tensors are there decides.
FORMATS = (
    _format("mlx", "an MLX model, for Apple's library", "weight scales biases", "U32"),
    _format("exl2", "an EXL2 model, for ExLlamaV2", "q_weight q_scale q_groups"),
    _format("exl3", "an EXL3 model, for ExLlamaV3", "trellis"),
    _format("hqq", "an HQQ model", "W_q"),
    _format("aqlm", "an AQLM model", "codes codebooks"),
    _format("quip", "a QuIP# model", "Qidxs SU SV"),
    _format("spqr", "an SpQR model", "dense_weights row_offsets"),
    _format("vptq", "a VPTQ model", "indices perm"),
    _format("higgs", "a HIGGS model", "weight scales tables"),
    _format("eetq", "an EETQ model", "weight weight_scales", "I8"),
    _format("quanto", "an optimum-quanto model", "weight._data weight._scale"),
    _format("qqq", "a QQQ model", "B s_channel"),
    _format("marlin", "a model in Marlin's own layout", "B s"),
    _format("nunchaku", "an SVDQuant model, for Nunchaku", "qweight wscales"),
    _format("bitnet", "a BitNet model"),
    _format("sinq", "a SINQ model"),
    _format("fouroversix", "a Four Over Six model"),
    _format("metal", "a model for Apple's Metal kernels"),
)
BY_METHOD = {f.method: f for f in FORMATS}


def format_of(leaves: Leaves) -> Format | None:
    """The foreign format of a module's tensors, None if they are of none."""
    return _format_of(frozenset(leaves), leaves.get("weight", ("", ()))[0])


@lru_cache(maxsize=4096)
def _format_of(names: frozenset[str], weight: str) -> Format | None:
    fits = (f for f in FORMATS if f.leaves and f.leaves <= names and f.weight in {"", weight})
    return next(fits, None)


def foreign_modules(modules: Mapping[str, Leaves]) -> Counter[Format]:
    """How many modules there are of each foreign format."""
    found = (format_of(leaves) for leaves in modules.values())
    return Counter(f for f in found if f is not None)
