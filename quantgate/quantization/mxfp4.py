"""MXFP4 declarations (gpt-oss): vLLM 0.33.0, layers/quantization/mxfp4.py.

Only routed experts are quantized, and no key is read: not even the list of modules to leave alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration
from quantgate.quantization.scheme import Layout, Scheme, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Mxfp4Declaration(Declaration):
    """An MXFP4 block, of which vLLM reads nothing but the method."""

    def scheme(self, *, fused: bool) -> Scheme:
        """The scheme of the experts: all of a block in one tensor (gpt-oss), or one by one."""
        if fused:
            return Scheme(Layout.GPT_OSS, 4, "float", Strategy.GROUP, 32)
        return Scheme(Layout.OCP_MX, 4, "float", Strategy.GROUP, 32, exponents=("U8", "F8_E8M0"))


def parse(raw: Mapping[str, Any], method: str, file: str, path: str) -> Mxfp4Declaration:
    """Read an MXFP4 block; there is nothing in it that vLLM could refuse."""
    return Mxfp4Declaration(method=method, file=file, path=path, raw=raw)
