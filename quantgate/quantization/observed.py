"""What the stored tensors of one module say by themselves, without believing the config.

A packed weight alone cannot tell 4 bits of K from 8 bits of K/2. Its companions can: scales show
N and the number of groups, zero points are packed with the same bits along N, g_idx has length K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quantgate.quantization.expected import FP8_TYPES
from quantgate.quantization.scheme import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

# Leaf names that only a quantized module has. `weight_scale` alone also occurs as a leftover.
QUANTIZED_LEAVES = frozenset(
    {
        *("qweight", "weight_packed", "weight_scale", "weight_scale_inv", "weight_scale_2"),
        *("qzeros", "gate_up_proj_blocks", "down_proj_blocks"),
        *("gate_up_proj_scales", "down_proj_scales"),
        *("SCB", "weight.absmax", "weight.quant_map"),
        *("_weight_qdata", "_weight_scale", "_weight_scale_and_zero"),
    }
)
_FP8 = frozenset({*FP8_TYPES, "F8_E5M2", "F8_E5M2FNUZ"})
_DENSE = frozenset({"BF16", "F16", "F32", "F64"})
WORD_BITS = (2, 3, 4, 8)


@dataclass(frozen=True, slots=True)
class Observed:
    """What can be told from one module's headers.

    Attributes:
        layout: How the values lie, None if it is not one that quantgate knows.
        n: out_features, None if unknown.
        k: in_features if it follows without knowing the bits, None otherwise.
        words: Number of 32-bit words along the packed axis (rows of GPTQ, columns of PACKED).
        bits: Bits per weight, None if the tensors leave it open.
        groups: Number of scale groups along K, None without a scale.
        transposed: The weight lies on its side: both axes are swapped.
        evidence: Which tensors settle the bits.
        zero_bits: Bits per weight that the zero points alone show.
        zero_groups: Number of groups that the zero points alone show.
    """

    layout: Layout | None
    n: int | None = None
    k: int | None = None
    words: int | None = None
    bits: int | None = None
    groups: int | None = None
    transposed: bool = False
    evidence: str = ""
    zero_bits: int | None = None
    zero_groups: int | None = None


def stored_layout(leaves: Mapping[str, tuple[str, tuple[int, ...]]]) -> Layout | None:
    """How a module's values lie, judged by names and types alone (GPTQ stands for AWQ too)."""
    if "qweight" in leaves:
        return Layout.GPTQ
    if "_weight_qdata" in leaves:
        return Layout.TORCHAO
    if "SCB" in leaves:
        return Layout.BNB_INT8
    if any(leaf.startswith("weight.") for leaf in leaves):
        quantized = "weight.absmax" in leaves or any("bitsandbytes" in leaf for leaf in leaves)
        return Layout.BNB_4BIT if quantized else None
    if "weight_packed" in leaves:
        dtype = leaves["weight_packed"][0]
        if dtype == "U8":
            scale = leaves.get("weight_scale", ("", ()))[0]
            return Layout.NVFP4 if scale in FP8_TYPES else Layout.MXFP4
        return Layout.PACKED
    if "gate_up_proj_blocks" in leaves:
        return Layout.GPT_OSS
    if "weight" not in leaves:
        return None
    dtype = leaves["weight"][0]
    if dtype in _FP8:
        byte_scale = leaves.get("weight_scale", ("", ()))[0] in {"U8", "F8_E8M0"}
        return Layout.MXFP8 if byte_scale else Layout.FP8
    if dtype == "I8":
        return Layout.INT8
    if dtype == "U8" and len(leaves["weight"][1]) == 3 and "weight_scale" not in leaves:
        return Layout.GGML
    if dtype == "U8":
        scale = leaves.get("weight_scale", ("", ()))[0]
        nvfp4 = scale in FP8_TYPES or "weight_scale_2" in leaves
        mx = Layout.OCP_MX if scale else None
        return Layout.MODELOPT_NVFP4 if nvfp4 else mx
    if dtype in {"I32", "U32"} and "weight_scale_2" in leaves:
        return Layout.QUARK_W4A8
    if dtype == "I32" and "weight_scale" in leaves:
        return Layout.QUARK_INT4
    return Layout.DENSE if dtype in _DENSE else None


def is_quantized(leaves: Mapping[str, tuple[str, tuple[int, ...]]]) -> bool:
    """Whether a module's tensors are those of a quantized module of any kind."""
    if not QUANTIZED_LEAVES.isdisjoint(leaves):
        return True
    weight = leaves.get("weight")
    return weight is not None and len(weight[1]) >= 2 and weight[0] not in _DENSE


def observe(leaves: Mapping[str, tuple[str, tuple[int, ...]]]) -> Observed:
    """Read layout, sizes, bits and groups from the shapes of one module."""
    match stored_layout(leaves):
        case Layout.GPTQ:
            return _observe_qweight(leaves)
        case Layout.PACKED:
            return _observe_packed(leaves)
        case Layout.GPT_OSS:
            return _observe_gpt_oss(leaves["gate_up_proj_blocks"][1])
        case None:
            return Observed(None)
        case layout:
            return _observe_plain(layout, leaves)


def _observe_qweight(leaves: Mapping[str, tuple[str, tuple[int, ...]]]) -> Observed:
    """GPTQ or AWQ: the two differ in which axis of qweight is N itself."""
    shape = leaves["qweight"][1]
    if len(shape) != 2:
        return Observed(None)
    rows, columns = shape
    n, count = _scale_axes(leaves.get("scales"), n_axis=1)
    k = _length(leaves.get("g_idx"))
    zero = leaves.get("qzeros")
    zero_words = zero[1][1] if zero and len(zero[1]) == 2 else None
    zero_groups = zero[1][0] if zero and len(zero[1]) == 2 else None
    zero_bits = _bits(zero_words, n)
    if n is None:
        return _without_scales(rows, columns, k, zero_words)
    if columns == n:
        own = _bits(rows, k)
        # Two witnesses that disagree settle nothing: one of the tensors is damaged.
        bits = own or zero_bits if own is None or zero_bits in {None, own} else None
        evidence = "g_idx" if bits and bits == own else "qzeros" if bits else ""
        return Observed(
            Layout.GPTQ,
            n,
            k,
            rows,
            bits,
            count,
            evidence=evidence,
            zero_bits=zero_bits,
            zero_groups=zero_groups,
        )
    bits = _bits(columns, n)
    if bits is not None and k in {None, rows}:
        return Observed(
            Layout.AWQ,
            n,
            rows,
            columns,
            bits,
            count,
            evidence="qweight and scales",
            zero_bits=zero_bits,
            zero_groups=zero_groups,
        )
    if rows == n:
        return Observed(Layout.GPTQ, n, k, columns, zero_bits, count, transposed=True)
    return Observed(None, None, k, rows, None, count, zero_groups=zero_groups)


def _without_scales(rows: int, columns: int, k: int | None, zero_words: int | None) -> Observed:
    """The zero points are packed along N in both layouts, so they tell them apart too."""
    if zero_words == columns:
        return Observed(Layout.AWQ, k=rows, words=columns)
    if _bits(zero_words, columns) is None:
        return Observed(None)
    bits = _bits(rows, k) or _bits(zero_words, columns)
    return Observed(Layout.GPTQ, columns, k, rows, bits, evidence="g_idx" if k else "qzeros")


def _observe_gpt_oss(shape: tuple[int, ...]) -> Observed:
    if len(shape) != 4:
        return Observed(Layout.GPT_OSS, bits=4)
    n, k = shape[1] // 2, shape[2] * 32
    return Observed(Layout.GPT_OSS, n, k, None, 4, shape[2], evidence="gate_up_proj_blocks")


def _observe_packed(leaves: Mapping[str, tuple[str, tuple[int, ...]]]) -> Observed:
    shape = leaves["weight_packed"][1]
    if len(shape) != 2:
        return Observed(None)
    rows, columns = shape
    n, count = _scale_axes(leaves.get("weight_scale"), n_axis=0)
    zero = leaves.get("weight_zero_point")
    bits = _bits(zero[1][0], n) if zero and len(zero[1]) == 2 else None
    zero_groups = zero[1][1] if zero and len(zero[1]) == 2 else None
    evidence = "weight_zero_point" if bits else ""
    if n is not None and rows != n and columns == n:
        return Observed(
            Layout.PACKED, n, None, rows, bits, count, transposed=True, evidence=evidence
        )
    return Observed(
        Layout.PACKED,
        rows,
        None,
        columns,
        bits,
        count,
        evidence=evidence,
        zero_bits=bits,
        zero_groups=zero_groups,
    )


def _observe_plain(layout: Layout, leaves: Mapping[str, tuple[str, tuple[int, ...]]]) -> Observed:
    if layout is Layout.BNB_4BIT:
        return Observed(layout, bits=4)
    if layout is Layout.TORCHAO:
        return _observe_torchao(leaves)
    if "weight" not in leaves and layout is Layout.BNB_INT8:
        return Observed(layout, bits=8)
    half = layout in {Layout.NVFP4, Layout.MXFP4, Layout.MODELOPT_NVFP4, Layout.OCP_MX}
    leaf = "weight_packed" if layout in {Layout.NVFP4, Layout.MXFP4} else "weight"
    dtype, shape = leaves[leaf]
    if len(shape) != 2:
        return Observed(layout)
    n, k = shape[0], shape[1] * 2 if half else shape[1]
    scale = leaves.get("weight_scale") or leaves.get("weight_scale_inv")
    count = scale[1][1] if scale and len(scale[1]) == 2 else None
    if layout is Layout.QUARK_W4A8:
        return Observed(layout, shape[0], shape[1] * 8, None, 4, evidence=leaf)
    if layout is Layout.QUARK_INT4:
        columns, found = _scale_axes(scale, n_axis=1)
        return Observed(layout, columns, shape[0], None, 4, found, evidence=leaf)
    if layout is Layout.OCP_MX and count and count * 24 == shape[1]:
        return Observed(layout, n, count * 32, None, 6, count, evidence=leaf)
    bits = 4 if half else 8 if layout is not Layout.DENSE else 32 if dtype == "F32" else 16
    return Observed(layout, n, k, None, bits, count, evidence=leaf)


def _observe_torchao(leaves: Mapping[str, tuple[str, tuple[int, ...]]]) -> Observed:
    """A row of bytes may be values or pairs of them; float8 and the scales tell."""
    dtype, shape = leaves["_weight_qdata"]
    scale = leaves.get("_weight_scale", ("", ()))[1]
    if len(shape) != 2 or dtype not in {"I8", *_FP8} or len(scale) != 2 or scale[0] != shape[0]:
        return Observed(Layout.TORCHAO)
    bits = 8 if dtype in _FP8 else None
    return Observed(Layout.TORCHAO, shape[0], shape[1], None, bits, scale[1])


def _scale_axes(
    scale: tuple[str, tuple[int, ...]] | None, *, n_axis: int
) -> tuple[int | None, int | None]:
    """(N, groups) from a scale tensor."""
    if scale is None or len(scale[1]) != 2:
        return None, None
    return scale[1][n_axis], scale[1][1 - n_axis]


def _length(leaf: tuple[str, tuple[int, ...]] | None) -> int | None:
    return leaf[1][0] if leaf and len(leaf[1]) == 1 else None


def _bits(words: int | None, length: int | None) -> int | None:
    """Bits per value if `length` values fill exactly `words` 32-bit words."""
    if not words or not length or words * 32 % length:
        return None
    bits = words * 32 // length
    return bits if bits in WORD_BITS else None
