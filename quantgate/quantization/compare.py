"""Where the stored tensors of one module differ from what its declaration makes vLLM expect.

The root is named once: if the tensors agree with each other for 8 bits and the config says 4, the
answer is one difference of kind `BITS`, not three wrong shapes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.findings import Outcome
from quantgate.quantization.awq_kernels import LAYOUTS, awq_kernel
from quantgate.quantization.bits_and_groups import (
    bits_outcome,
    group_size_difference,
    in_features,
    observed_bits,
    observed_group_size,
    padded_words,
    with_group_size,
)
from quantgate.quantization.blocks import other_block
from quantgate.quantization.difference import Difference, Kind, fits, shape_text
from quantgate.quantization.expected import FLOATS, Role, expected_tensors
from quantgate.quantization.observed import is_quantized, observe, stored_layout
from quantgate.quantization.orientation import lies_on_its_side, other_axis, transposed_weight
from quantgate.quantization.scheme import Layout, Sizes
from quantgate.quantization.tensor_differences import HARMLESS, tensor_differences
from quantgate.quantization.torchao_tensors import against_torchao
from quantgate.vllm.loading import shape_outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.quantization.awq_kernels import AwqKernel
    from quantgate.quantization.observed import Observed
    from quantgate.quantization.scheme import Scheme
    from quantgate.vllm.loading import Slicing

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]


def compare(
    leaves: Leaves, scheme: Scheme | None, sizes: Sizes, slicing: Slicing
) -> tuple[Difference, ...]:
    """Compare one module's tensors (leaf → dtype, shape) with its declared scheme.

    A scheme of None declares the module dense. `sizes` are what an independent witness knows.
    """
    if scheme is None or scheme.layout is Layout.DENSE:
        return tuple(_against_dense(leaves, sizes, slicing))
    kernel = awq_kernel(leaves)
    if kernel is not None and scheme.layout in {Layout.GPTQ, Layout.AWQ}:
        return (_for_another_kernel(leaves, scheme, kernel),)
    stored = stored_layout(leaves)
    if stored is Layout.DENSE:
        return (_dense(leaves, scheme, slicing),)
    if scheme.layout is Layout.TORCHAO and stored in {Layout.TORCHAO, None}:
        return tuple(against_torchao(leaves, scheme, sizes, slicing))
    weight = expected_tensors(scheme, None, None)[0]
    if stored is None and weight.leaf not in leaves:
        return tuple(tensor_differences(leaves, scheme, Sizes(), slicing))
    if (
        stored is not None
        and _family(stored) is not _family(scheme.layout)
        and not _packed_bytes(leaves, scheme)
        and not _lost_its_scales(leaves, scheme)
    ):
        return (_layout(leaves, scheme, stored, sizes, slicing),)
    dtype = leaves[weight.leaf][0] if weight.leaf in leaves else ""
    if dtype not in {*weight.dtypes, "F8_E5M2"}:
        # Words of another width: their number says nothing about bits or sizes.
        return tuple(tensor_differences(leaves, scheme, sizes, slicing))
    return tuple(_against_scheme(leaves, scheme, sizes, slicing, observe(leaves)))


def _family(layout: Layout) -> Layout:
    """Layouts whose tensors have equal names and types, so that only shapes tell them apart."""
    alike = {
        Layout.AWQ: Layout.GPTQ,
        Layout.MXFP4: Layout.NVFP4,
        Layout.MXFP8: Layout.FP8,
    }
    return alike.get(layout, layout)


def _packed_bytes(leaves: Leaves, scheme: Scheme) -> bool:
    """Integers packed into bytes instead of words: names and scales are right, the type is not."""
    packed = scheme.layout is Layout.PACKED and "weight_packed" in leaves
    return packed and leaves.get("weight_scale", ("", ()))[0] in FLOATS


def _lost_its_scales(leaves: Leaves, scheme: Scheme) -> bool:
    """An int8 weight of bitsandbytes whose SCB is missing, which is what tells it from others."""
    return scheme.layout is Layout.BNB_INT8 and leaves.keys() <= {"weight", "weight_format", "bias"}


def _for_another_kernel(leaves: Leaves, scheme: Scheme, kernel: AwqKernel) -> Difference:
    """An AWQ weight of AutoAWQ's other kernels: never of the declared shape, whatever N and K."""
    wanted = expected_tensors(scheme, None, None)[0]
    return Difference(
        Kind.KERNEL,
        f"qweight int32 {wanted.formula}",
        f"{shape_text(leaves['qweight'][1])}: {kernel}, {LAYOUTS[kernel]}",
        Outcome.FAILS,
        "qweight",
        Role.WEIGHT,
        witness=kernel,
    )


def _layout(
    leaves: Leaves, scheme: Scheme, stored: Layout, sizes: Sizes, slicing: Slicing
) -> Difference:
    """Tensors of another format. FP8 in place of INT8 has equal names and is only cast."""
    found = "packed int32 qweight" if stored is Layout.GPTQ else str(stored)
    tensors = tensor_differences(leaves, scheme, sizes, slicing)
    fails = any(d.outcome is Outcome.FAILS for d in tensors)
    outcome = Outcome.FAILS if fails else Outcome.SILENT
    return Difference(Kind.LAYOUT, str(scheme.layout), found, outcome)


def _against_dense(leaves: Leaves, sizes: Sizes, slicing: Slicing) -> Iterator[Difference]:
    if is_quantized(leaves):
        stored = [leaf for leaf in sorted(leaves) if leaf not in HARMLESS]
        found = ", ".join(f"{leaf} {leaves[leaf][0]}" for leaf in stored)
        # An int8 or float8 `weight` alone has the name of the dense one, and is cast.
        outcome = Outcome.SILENT if stored == ["weight"] else Outcome.FAILS
        yield Difference(Kind.QUANTIZED, "weight BF16 or F16", found, outcome)
        return
    shape = leaves["weight"][1] if "weight" in leaves else ()
    wanted = (sizes.n, sizes.k)
    if len(shape) == 2 and not fits(shape, wanted):
        yield Difference(
            Kind.SIZE,
            f"N x K = {sizes.n or '?'} x {sizes.k or '?'}",
            f"{shape[0]} x {shape[1]}",
            shape_outcome(("N", "K"), wanted, shape, slicing),
            "weight",
            Role.WEIGHT,
            witness=sizes.witness,
        )


def _dense(leaves: Leaves, scheme: Scheme, slicing: Slicing) -> Difference:
    """A float `weight` where a quantized one is declared.

    A float8 or int8 parameter is also called `weight`, and copying a bfloat16 tensor into it casts
    without a word; a packed parameter has another name, and `weight` is then an unexpected one. A
    byte of two values has the name but not the size. An int8 of bitsandbytes is cast too, and the
    first forward pass finds no state for it.
    """
    found = leaves["weight"][1]
    n, k = found if len(found) == 2 else (None, None)
    wanted = expected_tensors(scheme, n, k)[0]
    silent = wanted.leaf == "weight" and scheme.layout is not Layout.BNB_INT8
    outcome = Outcome.SILENT if silent else Outcome.FAILS
    if silent and n is not None and found != wanted.shapes[0]:
        outcome = shape_outcome(wanted.axes, wanted.shapes[0], found, slicing)
    expected = f"{wanted.leaf} {wanted.dtypes[0]}"
    return Difference(Kind.DENSE, expected, f"weight {leaves['weight'][0]}", outcome, "weight")


def _against_scheme(
    leaves: Leaves, scheme: Scheme, sizes: Sizes, slicing: Slicing, seen: Observed
) -> Iterator[Difference]:
    if scheme.layout in {Layout.GPTQ, Layout.AWQ} and seen.layout not in {None, scheme.layout}:
        yield other_axis(scheme, seen, leaves)
        return
    if seen.transposed or lies_on_its_side(leaves, scheme, sizes, seen):
        yield transposed_weight(leaves, scheme)
        return
    blocks = other_block(leaves, scheme, slicing)
    if blocks is not None:
        yield blocks[0]
        scheme = blocks[1]
    padded = padded_words(leaves, scheme, seen, sizes, slicing)
    if padded is not None:
        yield padded
        others = tensor_differences(leaves, scheme, replace(sizes, n=sizes.n or seen.n), slicing)
        yield from (d for d in others if d.leaf not in {"weight_packed", "weight_zero_point"})
        return
    bits, witness = observed_bits(scheme, seen, sizes)
    if bits is not None and bits != scheme.bits:
        yield Difference(
            Kind.BITS,
            f"{scheme.bits} bits",
            f"{bits} bits",
            bits_outcome(scheme, seen, sizes, slicing),
            value=bits,
            witness=witness,
        )
        scheme = replace(scheme, bits=bits)
    k = in_features(scheme, seen, sizes)
    other = observed_group_size(scheme, seen, k)
    if other is not None:
        yield group_size_difference(leaves, scheme, Sizes(seen.n or sizes.n, k), other, slicing)
        scheme = with_group_size(scheme, other)
    elif scheme.group_size and k and k % scheme.group_size:
        yield Difference(
            Kind.GROUP_DIVIDES, f"a divisor of K = {k}", str(scheme.group_size), Outcome.FAILS
        )
    own = Sizes(seen.n, k, "the tensors themselves")
    sizes = replace(sizes, n=sizes.n or own.n, k=sizes.k or own.k)
    against_witness = tuple(tensor_differences(leaves, scheme, sizes, slicing))
    against_own = tuple(tensor_differences(leaves, scheme, own, slicing))
    shapes = {Kind.SHAPE}
    if (
        any(d.kind in shapes for d in against_witness)
        and not any(d.kind in shapes for d in against_own)
        and _differ(own, sizes)
    ):
        yield _size(leaves, scheme, sizes, own, slicing)
        yield from against_own
    else:
        yield from against_witness


def _differ(a: Sizes, b: Sizes) -> bool:
    return any(x and y and x != y for x, y in ((a.n, b.n), (a.k, b.k)))


def _size(leaves: Leaves, scheme: Scheme, sizes: Sizes, own: Sizes, slicing: Slicing) -> Difference:
    weight = expected_tensors(scheme, sizes.n, sizes.k)[0]
    return Difference(
        Kind.SIZE,
        f"N x K = {sizes.n or '?'} x {sizes.k or '?'}",
        f"{own.n or '?'} x {own.k or '?'}",
        shape_outcome(weight.axes, weight.shapes[0], leaves[weight.leaf][1], slicing)
        if weight.leaf in leaves
        else Outcome.FAILS,
        weight.leaf,
        Role.WEIGHT,
        witness=sizes.witness,
    )
