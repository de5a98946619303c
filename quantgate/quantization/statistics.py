"""How much of a model is quantized, and how: the numbers that a reader wants first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from quantgate.quantization.bitsandbytes import stored_type
from quantgate.quantization.observed import is_quantized, observe, stored_layout
from quantgate.quantization.scheme import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.quantization.scheme import Scheme, Sizes

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

_NAMES = {
    Layout.FP8: "fp8",
    Layout.NVFP4: "nvfp4",
    Layout.MXFP4: "mxfp4",
    Layout.MXFP8: "mxfp8",
}
_DENSE = {"BF16": "bf16", "F16": "fp16", "F32": "fp32"}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Totals of one checkpoint.

    Attributes:
        parameters: Logical parameters: a packed weight counts N * K.
        quantized: Parameters in quantized modules.
        bytes: Bytes of all tensors, scales and zero points included.
    """

    parameters: int
    quantized: int
    bytes: int

    @property
    def bits_per_weight(self) -> float:
        """Average over all tensors; 0 for an empty checkpoint."""
        return self.bytes * 8 / self.parameters if self.parameters else 0.0

    @property
    def share(self) -> float:
        """Share of the parameters that is quantized, from 0 to 1."""
        return self.quantized / self.parameters if self.parameters else 0.0


def statistics(
    modules: Mapping[str, Leaves], schemes: Mapping[str, Scheme | None], nbytes: int
) -> Statistics:
    """Count the logical parameters of every module.

    `schemes` help where a packed weight alone does not tell its K.
    """
    total = quantized = 0
    seen: dict[object, int] = {}
    for name, leaves in modules.items():
        scheme = schemes.get(name)
        key = (tuple(leaves.items()), id(scheme))  # schemes are shared objects
        if key not in seen:
            seen[key] = _parameters(leaves, scheme)
        total += seen[key]
        if is_quantized(leaves):
            quantized += seen[key]
    return Statistics(total, quantized, nbytes)


def _parameters(leaves: Leaves, scheme: Scheme | None) -> int:
    if not is_quantized(leaves):
        return sum(prod(shape) for _, shape in leaves.values())
    if stored_layout(leaves) is Layout.BNB_4BIT and "weight" in leaves:
        return 2 * prod(leaves["weight"][1])
    seen = observe(leaves)
    k = seen.k
    bits = seen.bits or (scheme.bits if scheme else None)
    if k is None and seen.words and bits:
        k = seen.words * 32 // bits
    if seen.n and k:
        return seen.n * k
    weight = next(
        (leaves[x] for x in ("weight", "weight_packed", "qweight", "_weight_qdata") if x in leaves),
        None,
    )
    return prod(weight[1]) if weight else 0


def label(leaves: Leaves, sizes: Sizes) -> str:
    """A stored scheme in a word or two: `int4 g128`, `fp8`, `nvfp4`, `bf16`."""
    layout = stored_layout(leaves)
    if layout is Layout.DENSE:
        dtype = leaves["weight"][0] if "weight" in leaves else ""
        return _DENSE.get(dtype, dtype.lower())
    if layout is None:
        kinds = Counter(dtype for dtype, _ in leaves.values())
        return kinds.most_common(1)[0][0].lower() if kinds else "?"
    if layout in _NAMES:
        return _NAMES[layout]
    if layout is Layout.BNB_4BIT:
        return stored_type(leaves) or "4bit"
    if layout is Layout.TORCHAO:
        dtype = leaves["_weight_qdata"][0].lower()
        return "fp8" if dtype.startswith("f8") else f"torchao {dtype}"
    seen = observe(leaves)
    bits = 8 if layout in {Layout.INT8, Layout.BNB_INT8} else seen.bits
    if bits is None and seen.words and sizes.k and seen.words * 32 % sizes.k == 0:
        bits = seen.words * 32 // sizes.k
    name = f"int{bits}" if bits else "int"
    k = seen.k or sizes.k or (seen.words * 32 // bits if seen.words and bits else None)
    if seen.groups and seen.groups > 1 and k and k % seen.groups == 0:
        return f"{name} g{k // seen.groups}"
    return name
