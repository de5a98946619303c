"""`quant_method: experts_int8`: vLLM 0.33.0, layers/quantization/experts_int8.py.

An engine option that a config may name as well: no key is read, the stored model is a dense one,
and vLLM turns its routed experts into int8 while it loads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class ExpertsInt8Declaration(Declaration):
    """A block of which vLLM reads nothing but the method; everything in the files is dense."""


def parse(raw: Mapping[str, Any], file: str, path: str) -> ExpertsInt8Declaration:
    """Read such a block; there is nothing in it that vLLM could refuse."""
    return ExpertsInt8Declaration(method="experts_int8", file=file, path=path, raw=raw)
