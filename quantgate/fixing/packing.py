"""One module's tensors from the layout of GPTQ to that of AWQ and back, without loss.

In both a weight is (q - z) * scale with q and z of 4 bits. They differ in the axis and order of the
packing, and in that GPTQ's first format stores z - 1. vLLM computes GPTQ with z = 8 whatever is
stored (0.33.0, auto_gptq.py: uint4b8), so only zero points of 8 can become GPTQ.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from quantgate.fixing.nibbles import (
    AWQ_ORDER,
    IN_ORDER,
    pack_columns,
    pack_rows,
    unpack_columns,
    unpack_rows,
)

if TYPE_CHECKING:
    from quantgate.fixing.nibbles import Values, Words

SYMMETRIC = 8


class Packing(StrEnum):
    """How the words of a file are packed."""

    AWQ = "awq"
    GPTQ = "gptq"  # stores z - 1
    GPTQ_V2 = "gptq_v2"  # stores z


@dataclass(frozen=True, slots=True)
class Repacking:
    """From the packing that is stored to the one that is declared."""

    stored: Packing
    declared: Packing

    def weight(self, words: Words) -> Words:
        """A qweight as declared."""
        return encode_weight(decode_weight(words, self.stored), self.declared)

    def zeros(self, words: Words) -> Words:
        """A qzeros as declared."""
        return encode_zeros(decode_zeros(words, self.stored), self.declared)


def decode_weight(words: Words, packing: Packing) -> Values:
    """q, [K, N]."""
    return unpack_columns(words, AWQ_ORDER) if packing is Packing.AWQ else unpack_rows(words)


def encode_weight(values: Values, packing: Packing) -> Words:
    """The qweight of q: AWQ [K, N/8], GPTQ [K/8, N]."""
    return pack_columns(values, AWQ_ORDER) if packing is Packing.AWQ else pack_rows(values)


def decode_zeros(words: Words, packing: Packing) -> Values:
    """z, [groups, N]. A stored 15 of the first GPTQ format is 0 - 1."""
    values = unpack_columns(words, AWQ_ORDER if packing is Packing.AWQ else IN_ORDER)
    return (values + 1) & np.uint8(15) if packing is Packing.GPTQ else values


def encode_zeros(values: Values, packing: Packing) -> Words:
    """The qzeros of z: [groups, N/8]."""
    stored = (values - np.uint8(1)) & np.uint8(15) if packing is Packing.GPTQ else values
    return pack_columns(stored, AWQ_ORDER if packing is Packing.AWQ else IN_ORDER)


def grouped_in_order(g_idx: Words, group_size: int | None) -> bool:
    """Whether the rows of a GPTQ weight belong to their groups in order, as AWQ takes for granted.

    A file without activation order may also hold nothing but zeros.
    """
    if not g_idx.any():
        return True
    rows = np.arange(g_idx.size, dtype=np.int64)
    return group_size is not None and bool(np.array_equal(g_idx, rows // group_size))
