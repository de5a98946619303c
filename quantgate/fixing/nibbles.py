"""Words of eight 4-bit values: unpacked and packed, in the orders of GPTQ and of AWQ.

Sources: vLLM 0.33.0, layers/quantization/auto_awq.py (the order of AWQ, which its loader undoes)
and utils/quant_utils.py (pack_rows, pack_cols). Arrays of words are int32, arrays of values uint8.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int32]
Values = NDArray[np.uint8]

PER_WORD: Final = 8
AWQ_ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)
"""AWQ: which of eight neighbouring columns the nibble of this place holds, the lowest first."""
IN_ORDER: Final = (0, 1, 2, 3, 4, 5, 6, 7)


def unpack_columns(words: Words, order: tuple[int, ...]) -> Values:
    """[R, C] words → [R, 8 C] values."""
    values = np.empty((words.shape[0], words.shape[1] * PER_WORD), np.uint8)
    for place, column in enumerate(order):
        values[:, column::PER_WORD] = (words >> 4 * place) & 15
    return values


def pack_columns(values: Values, order: tuple[int, ...]) -> Words:
    """[R, 8 C] values → [R, C] words."""
    words = np.zeros((values.shape[0], values.shape[1] // PER_WORD), np.uint32)
    for place, column in enumerate(order):
        words |= values[:, column::PER_WORD].astype(np.uint32) << np.uint32(4 * place)
    return words.view(np.int32)


def unpack_rows(words: Words) -> Values:
    """[R, C] words → [8 R, C] values: how GPTQ packs its weight."""
    return np.ascontiguousarray(unpack_columns(words.T, IN_ORDER).T)


def pack_rows(values: Values) -> Words:
    """[8 R, C] values → [R, C] words."""
    return np.ascontiguousarray(pack_columns(values.T, IN_ORDER).T)
