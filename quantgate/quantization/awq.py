"""AWQ declarations: vLLM 0.33.0, layers/quantization/auto_awq.py.

`version` is never read: every file is taken for one in the layout of GEMM (awq_kernels.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration, ProblemKind, Reader
from quantgate.quantization.gptq import qweight_scheme
from quantgate.quantization.scheme import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.quantization.scheme import Scheme


@dataclass(frozen=True, kw_only=True)
class AwqDeclaration(Declaration):
    """The keys of an AWQ block that vLLM reads; None where one is missing or unusable."""

    bits: int | None
    group_size: int | None
    zero_point: bool | None
    lm_head: bool
    not_converted: tuple[str, ...]

    def scheme(self) -> Scheme | None:
        """The scheme of every quantized module."""
        if self.bits is None or self.group_size is None:
            return None
        return qweight_scheme(Layout.AWQ, self.bits, self.group_size, symmetric=not self.zero_point)


def parse(raw: Mapping[str, Any], file: str, path: str) -> AwqDeclaration:
    """Read an AWQ block and note what vLLM refuses."""
    reader = Reader(raw)
    bits = reader.integer("w_bit", "bits")
    group_size = reader.integer("q_group_size", "group_size")
    zero_point = reader.boolean("zero_point")
    lm_head = reader.boolean("lm_head", default=False)
    not_converted = reader.strings("modules_to_not_convert")
    if bits is not None and bits != 4:
        reader.note(
            ProblemKind.VALUE,
            reader.find("w_bit", "bits") or "bits",
            "4",
            f"Unsupported num_bits = {bits}. Currently only 4-bit weight quantization is supported",
        )
    if group_size is not None and group_size != -1 and group_size < 1:
        name = reader.find("q_group_size", "group_size") or "group_size"
        reader.note(ProblemKind.VALUE, name, "-1 or a positive number", "ZeroDivisionError")
    return AwqDeclaration(
        method="awq",
        file=file,
        path=path,
        raw=raw,
        problems=tuple(reader.problems),
        bits=bits,
        group_size=group_size,
        zero_point=zero_point,
        lm_head=bool(lm_head),
        not_converted=not_converted,
    )
