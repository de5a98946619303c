"""Bits and group size as the tensors show them, against the declared ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.findings import Outcome
from quantgate.quantization.difference import Difference, Kind, shape_text
from quantgate.quantization.expected import Role, expected_tensors, groups
from quantgate.quantization.observed import WORD_BITS
from quantgate.quantization.scheme import Layout, Strategy
from quantgate.vllm.loading import shape_outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.quantization.observed import Observed
    from quantgate.quantization.scheme import Scheme, Sizes
    from quantgate.vllm.loading import Slicing

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

# A number of groups that gives another group size than these is taken for a damaged scale.
USUAL_GROUP_SIZES = frozenset({16, 32, 64, 128, 256, 512, 1024})


def observed_bits(scheme: Scheme, seen: Observed, sizes: Sizes) -> tuple[int | None, str]:
    """Bits that the companions or a witness settle, and which of them did."""
    if scheme.layout not in {Layout.GPTQ, Layout.AWQ, Layout.PACKED}:
        return None, ""
    if seen.bits is not None:
        return seen.bits, seen.evidence
    if seen.words is None or not sizes.k or sizes.disputed or scheme.layout is Layout.AWQ:
        return None, ""
    if seen.words == _words(sizes.k, scheme.bits) or seen.words * 32 % sizes.k:
        return None, ""
    bits = seen.words * 32 // sizes.k
    if bits not in WORD_BITS or seen.zero_bits not in {None, bits}:
        return None, ""
    return bits, sizes.witness


def padded_words(
    leaves: Leaves, scheme: Scheme, seen: Observed, sizes: Sizes, slicing: Slicing
) -> Difference | None:
    """Words of 3, 5, 6 or 7 bits of which each holds whole values only, if these are such.

    compressed-tensors packed so up to 0.17; since 0.18 it packs densely, across the words, which is
    what every release of vLLM that takes these bits allocates (0.27.1 to 0.33.0,
    compressed_tensors_wNa16.py). Padded 7-bit words are as many as those of 8 bits.
    """
    if scheme.layout is not Layout.PACKED or 32 % scheme.bits == 0 or scheme.bits > 8:
        return None
    k = sizes.k or (seen.groups * scheme.group_size if seen.groups and scheme.group_size else None)
    if not k or seen.words != -(-k // (32 // scheme.bits)):
        return None
    dense = _words(k, scheme.bits)
    if seen.words == dense or seen.zero_bits not in {None, scheme.bits}:
        return None
    found = shape_text(leaves["weight_packed"][1])
    return Difference(
        Kind.PADDED,
        f"[N, K*{scheme.bits}/32] = {shape_text((seen.n, dense))}",
        f"{found} = [N, K/{32 // scheme.bits}]",
        shape_outcome(("K",), (dense,), (seen.words,), slicing),
        "weight_packed",
        Role.WEIGHT,
        witness=f"K = {k}",
    )


def bits_outcome(scheme: Scheme, seen: Observed, sizes: Sizes, slicing: Slicing) -> Outcome:
    """What loading does with words that hold another number of bits than declared."""
    k = seen.k or sizes.k
    if seen.words is None or k is None:
        return Outcome.FAILS
    if scheme.layout is Layout.AWQ:
        want, axis = _words(seen.n or 0, scheme.bits), "N"
    else:
        want, axis = _words(k, scheme.bits), "K"
    return shape_outcome((axis,), (want,), (seen.words,), slicing)


def in_features(scheme: Scheme, seen: Observed, sizes: Sizes) -> int | None:
    """K, from the tensors themselves where they show it, otherwise from the witness."""
    if seen.k is not None:
        return seen.k
    if seen.words is not None and seen.words * 32 % scheme.bits == 0:
        own = seen.words * 32 // scheme.bits
        # Odd bit widths fill the last word only in part; the witness then knows K better.
        return sizes.k if sizes.k and _words(sizes.k, scheme.bits) == seen.words else own
    return sizes.k


def observed_group_size(scheme: Scheme, seen: Observed, k: int | None) -> int | None:
    """The group size that the scales show where it is another than declared; -1 for channel."""
    grouped = scheme.strategy in {Strategy.GROUP, Strategy.TENSOR_GROUP, Strategy.CHANNEL}
    fixed = {Layout.INT8, Layout.FP8, Layout.MXFP4, Layout.MXFP8, Layout.OCP_MX, Layout.GPT_OSS}
    fixed |= {Layout.BNB_INT8}
    if not grouped or scheme.layout in fixed or not k or not seen.groups:
        return None
    if seen.groups == groups(scheme, k) or k % seen.groups:
        return None
    if seen.zero_groups not in {None, seen.groups}:
        return None  # the zero points contradict, so it is the scale that is damaged
    if seen.groups == 1:
        return -1
    size = k // seen.groups
    return size if size in USUAL_GROUP_SIZES else None


def with_group_size(scheme: Scheme, size: int) -> Scheme:
    """The scheme with the group size that the scales show; -1 is a channel scale."""
    if size == -1:
        return replace(scheme, strategy=Strategy.CHANNEL, group_size=None)
    strategy = Strategy.GROUP if scheme.strategy is Strategy.CHANNEL else scheme.strategy
    return replace(scheme, strategy=strategy, group_size=size)


def group_size_difference(
    leaves: Leaves, scheme: Scheme, sizes: Sizes, size: int, slicing: Slicing
) -> Difference:
    """The difference between the declared number of groups and the one the scales have."""
    scale = next(e for e in expected_tensors(scheme, sizes.n, sizes.k) if e.role is Role.SCALE)
    found = leaves[scale.leaf][1]
    return Difference(
        Kind.GROUP_SIZE,
        f"group_size {scheme.group_size if scheme.group_size else -1}, "
        f"{scale.leaf} {shape_text(scale.shapes[0])}",
        f"group_size {size}, {scale.leaf} {shape_text(found)}",
        shape_outcome(scale.axes, scale.shapes[0], found, slicing),
        scale.leaf,
        Role.SCALE,
        size,
        f"{scale.leaf} and K = {sizes.k}",
    )


def _words(length: int, bits: int) -> int:
    return -(-length * bits // 32)
