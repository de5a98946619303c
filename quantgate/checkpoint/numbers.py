"""Numbers as safetensors stores them, little-endian, for tensors of a few bytes."""

from __future__ import annotations

import math
import struct
from typing import Final

_FORMATS: Final = {
    "F64": "d",
    "F32": "f",
    "F16": "e",
    "I64": "q",
    "I32": "i",
    "U8": "B",
    "I8": "b",
}
DECODED: Final = frozenset({*_FORMATS, "BF16", "F8_E4M3"})
"""The dtypes that `decode` knows."""


def decode(dtype: str, content: bytes) -> tuple[float, ...]:
    """The values of a tensor; empty for a dtype that is not in `DECODED` or a broken size."""
    if dtype == "BF16":
        pairs = zip(content[::2], content[1::2], strict=False)
        return tuple(struct.unpack("<f", bytes((0, 0, *pair)))[0] for pair in pairs)
    if dtype == "F8_E4M3":
        return tuple(_e4m3(byte) for byte in content)
    letter = _FORMATS.get(dtype)
    if letter is None or len(content) % struct.calcsize(f"<{letter}"):
        return ()
    return tuple(number for (number,) in struct.iter_unpack(f"<{letter}", content))


def _e4m3(byte: int) -> float:
    """OCP 8-bit floating point, E4M3: no infinity, one NaN of each sign."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    size = mantissa / 8 * 2**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -size if byte & 128 else size
