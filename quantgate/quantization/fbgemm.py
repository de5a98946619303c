"""FBGEMM FP8 declarations (Meta's Llama 3.1): vLLM 0.33.0, layers/quantization/fbgemm_fp8.py.

Deprecated from 0.16 on; the tensors are those of FP8 with one scale per channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration, Reader
from quantgate.quantization.scheme import Activations, Layout, Scheme, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class FbgemmDeclaration(Declaration):
    """The keys of an fbgemm_fp8 block that vLLM reads."""

    not_converted: tuple[str, ...]

    def scheme(self) -> Scheme:
        """The scheme of every Linear that is not listed; routed experts stay dense."""
        inputs = Activations(8, "float", Strategy.TOKEN, dynamic=True)
        return Scheme(Layout.FP8, 8, "float", Strategy.CHANNEL, activations=inputs, capability=80)


def parse(raw: Mapping[str, Any], file: str, path: str) -> FbgemmDeclaration:
    """Read an fbgemm_fp8 block and note what vLLM refuses."""
    reader = Reader(raw)
    for key in ("modules_to_not_convert", "activation_scale_ub"):
        reader.present(key)
    return FbgemmDeclaration(
        method="fbgemm_fp8",
        file=file,
        path=path,
        raw=raw,
        not_converted=reader.strings("modules_to_not_convert"),
        problems=tuple(reader.problems),
    )
