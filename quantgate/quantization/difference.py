"""In which ways the tensors of one module can differ from what vLLM will allocate."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quantgate.findings import Outcome
    from quantgate.quantization.expected import Role


class Kind(StrEnum):
    """In which way declared and stored differ."""

    BITS = "bits"
    GROUP_SIZE = "group size"
    BLOCK = "block size"
    GROUP_DIVIDES = "group size does not divide"
    AXIS = "packed along the other axis"
    KERNEL = "packed for another kernel"
    PADDED = "words padded"
    TRANSPOSED = "transposed"
    SIZE = "size"
    LAYOUT = "layout"
    DENSE = "dense"
    QUANTIZED = "quantized"
    SYMMETRY = "symmetry"
    MISSING = "missing"
    SURPLUS = "surplus"
    SHAPE = "shape"
    RANK = "rank"
    DTYPE = "dtype"


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which a module's tensors are not what vLLM will allocate.

    `expected` and `found` are short texts, `value` is what was observed where the config could be
    changed to it (bits, group size; -1 is one group per output channel; rows and columns of a
    block), `witness` says which evidence decides.
    """

    kind: Kind
    expected: str
    found: str
    outcome: Outcome
    leaf: str = ""
    role: Role | None = None
    value: int | tuple[int, int] | None = None
    witness: str = ""


def fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    """Whether a shape is the one wanted; None is any length."""
    return len(shape) == len(wanted) and all(
        w is None or w == s for s, w in zip(shape, wanted, strict=True)
    )


def shape_text(shape: tuple[int | None, ...], formula: str = "") -> str:
    """A shape as text, or the formula where a length of it is unknown."""
    if formula and None in shape:
        return formula
    return "[" + ", ".join("?" if s is None else str(s) for s in shape) + "]"
