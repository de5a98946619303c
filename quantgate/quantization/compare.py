"""Where the stored tensors of one module differ from what its declaration makes vLLM expect.

The root is named once: if the tensors agree with each other for 8 bits and the config says 4, the
answer is one difference of kind `BITS`, not three wrong shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from quantgate.findings import Outcome
from quantgate.quantization.expected import FLOATS, Expected, Role, expected_tensors, groups
from quantgate.quantization.observed import WORD_BITS, is_quantized, observe, stored_layout
from quantgate.quantization.scheme import Layout, Sizes, Strategy
from quantgate.vllm.loading import shape_outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.quantization.observed import Observed
    from quantgate.quantization.scheme import Scheme
    from quantgate.vllm.loading import Slicing

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

# A number of groups that gives another group size than these is taken for a damaged scale.
USUAL_GROUP_SIZES = frozenset({16, 32, 64, 128, 256, 512, 1024})
# Leaves that vLLM drops or that belong to the attention, not to the Linear (base_config.py
# get_checkpoint_weight_mapper, get_cache_scale_mapper).
_HARMLESS = frozenset(
    {
        "bias",
        "g_idx",
        "k_scale",
        "v_scale",
        "q_scale",
        "kv_scale",
        "k_zero_point",
        "v_zero_point",
        "q_zero_point",
        "output_scale",
    }
)


class Kind(StrEnum):
    """In which way declared and stored differ."""

    BITS = "bits"
    GROUP_SIZE = "group size"
    GROUP_DIVIDES = "group size does not divide"
    AXIS = "packed along the other axis"
    TRANSPOSED = "transposed"
    SIZE = "size"
    LAYOUT = "layout"
    DENSE = "dense"
    QUANTIZED = "quantized"
    SYMMETRY = "symmetry"
    MISSING = "missing"
    SURPLUS = "surplus"
    SHAPE = "shape"
    RANK = "rank"
    DTYPE = "dtype"


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which a module's tensors are not what vLLM will allocate.

    `expected` and `found` are short texts, `value` is the observed number where the config could
    be changed to it (bits, group size; -1 is one group per output channel), `witness` says which
    evidence decides.
    """

    kind: Kind
    expected: str
    found: str
    outcome: Outcome
    leaf: str = ""
    role: Role | None = None
    value: int | None = None
    witness: str = ""


def compare(
    leaves: Leaves, scheme: Scheme | None, sizes: Sizes, slicing: Slicing
) -> tuple[Difference, ...]:
    """Compare one module's tensors (leaf → dtype, shape) with its declared scheme.

    A scheme of None declares the module dense. `sizes` are what an independent witness knows.
    """
    if scheme is None or scheme.layout is Layout.DENSE:
        return tuple(_against_dense(leaves, sizes, slicing))
    stored = stored_layout(leaves)
    if stored is Layout.DENSE:
        return (_dense(leaves, scheme, slicing),)
    weight = expected_tensors(scheme, None, None)[0]
    if stored is None and weight.leaf not in leaves:
        return tuple(_tensor_differences(leaves, scheme, Sizes(), slicing))
    if (
        stored is not None
        and _family(stored) is not _family(scheme.layout)
        and not _packed_bytes(leaves, scheme)
    ):
        return (_layout(leaves, scheme, stored, sizes, slicing),)
    dtype = leaves[weight.leaf][0] if weight.leaf in leaves else ""
    if dtype not in {*weight.dtypes, "F8_E5M2"}:
        # Words of another width: their number says nothing about bits or sizes.
        return tuple(_tensor_differences(leaves, scheme, sizes, slicing))
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


def _layout(
    leaves: Leaves, scheme: Scheme, stored: Layout, sizes: Sizes, slicing: Slicing
) -> Difference:
    """Tensors of another format. FP8 in place of INT8 has equal names and is only cast."""
    found = "packed int32 qweight" if stored is Layout.GPTQ else str(stored)
    tensors = _tensor_differences(leaves, scheme, sizes, slicing)
    fails = any(d.outcome is Outcome.FAILS for d in tensors)
    outcome = Outcome.FAILS if fails else Outcome.SILENT
    return Difference(Kind.LAYOUT, str(scheme.layout), found, outcome)


def _against_dense(leaves: Leaves, sizes: Sizes, slicing: Slicing) -> Iterator[Difference]:
    if is_quantized(leaves):
        stored = [leaf for leaf in sorted(leaves) if leaf not in _HARMLESS]
        found = ", ".join(f"{leaf} {leaves[leaf][0]}" for leaf in stored)
        # An int8 or float8 `weight` alone has the name of the dense one, and is cast.
        outcome = Outcome.SILENT if stored == ["weight"] else Outcome.FAILS
        yield Difference(Kind.QUANTIZED, "weight BF16 or F16", found, outcome)
        return
    shape = leaves["weight"][1] if "weight" in leaves else ()
    wanted = (sizes.n, sizes.k)
    if len(shape) == 2 and not _fits(shape, wanted):
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
    byte of two values has the name but not the size.
    """
    found = leaves["weight"][1]
    n, k = found if len(found) == 2 else (None, None)
    wanted = expected_tensors(scheme, n, k)[0]
    outcome = Outcome.SILENT if wanted.leaf == "weight" else Outcome.FAILS
    if wanted.leaf == "weight" and n is not None and found != wanted.shapes[0]:
        outcome = shape_outcome(wanted.axes, wanted.shapes[0], found, slicing)
    expected = f"{wanted.leaf} {wanted.dtypes[0]}"
    return Difference(Kind.DENSE, expected, f"weight {leaves['weight'][0]}", outcome, "weight")


def _against_scheme(
    leaves: Leaves, scheme: Scheme, sizes: Sizes, slicing: Slicing, seen: Observed
) -> Iterator[Difference]:
    if scheme.layout in {Layout.GPTQ, Layout.AWQ} and seen.layout not in {None, scheme.layout}:
        yield _axis(scheme, seen, leaves)
        return
    if seen.transposed or _lies_on_its_side(leaves, scheme, sizes, seen):
        yield _transposed(leaves, scheme)
        return
    bits, witness = _observed_bits(scheme, seen, sizes)
    if bits is not None and bits != scheme.bits:
        yield Difference(
            Kind.BITS,
            f"{scheme.bits} bits",
            f"{bits} bits",
            _bits_outcome(scheme, seen, sizes, slicing),
            value=bits,
            witness=witness,
        )
        scheme = replace(scheme, bits=bits)
    k = _in_features(scheme, seen, sizes)
    other = _observed_group_size(scheme, seen, k)
    if other is not None:
        yield _group_size(leaves, scheme, Sizes(seen.n or sizes.n, k), other, slicing)
        scheme = _with_group_size(scheme, other)
    elif scheme.group_size and k and k % scheme.group_size:
        yield Difference(
            Kind.GROUP_DIVIDES, f"a divisor of K = {k}", str(scheme.group_size), Outcome.FAILS
        )
    own = Sizes(seen.n, k, "the tensors themselves")
    sizes = replace(sizes, n=sizes.n or own.n, k=sizes.k or own.k)
    against_witness = tuple(_tensor_differences(leaves, scheme, sizes, slicing))
    against_own = tuple(_tensor_differences(leaves, scheme, own, slicing))
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


def _axis(scheme: Scheme, seen: Observed, leaves: Leaves) -> Difference:
    wanted = expected_tensors(scheme, seen.n, seen.k)[0]
    along = {Layout.GPTQ: "K (input)", Layout.AWQ: "N (output)"}
    other = Layout.AWQ if scheme.layout is Layout.GPTQ else Layout.GPTQ
    found = expected_tensors(replace(scheme, layout=other), seen.n, seen.k)[0]
    return Difference(
        Kind.AXIS,
        f"{wanted.formula}, packed along {along[scheme.layout]}",
        f"{_text(leaves['qweight'][1])} = {found.formula}, packed along {along[other]}",
        Outcome.FAILS,
        "qweight",
        Role.WEIGHT,
        witness="scales",
    )


def _lies_on_its_side(leaves: Leaves, scheme: Scheme, sizes: Sizes, seen: Observed) -> bool:
    """Whether the weight has exactly the expected shape with both axes swapped."""
    n, k = sizes.n, sizes.k
    if n is None:
        n = _rows_of_scale(leaves, scheme)
    if k is None and scheme.group_size and seen.groups:
        k = seen.groups * scheme.group_size
    if n is None or k is None:
        return False
    wanted = expected_tensors(scheme, n, k)[0]
    shape = wanted.shapes[0]
    found = leaves[wanted.leaf][1]
    return len(found) == 2 and found != shape and found == shape[::-1]


def _rows_of_scale(leaves: Leaves, scheme: Scheme) -> int | None:
    """N as the scale shows it, None where it has one value per block or per tensor."""
    shape = leaves.get(scheme.scale_name, ("", ()))[1]
    if len(shape) != 2 or scheme.strategy in {Strategy.BLOCK, Strategy.TENSOR}:
        return None
    k_first = scheme.scale_name == "scales" or scheme.layout is Layout.QUARK_INT4
    return shape[1] if k_first else shape[0]


def _transposed(leaves: Leaves, scheme: Scheme) -> Difference:
    wanted = expected_tensors(scheme, None, None)[0]
    turned = ", ".join(reversed(wanted.formula.strip("[]").split(", ")))
    found = f"{_text(leaves[wanted.leaf][1])} = [{turned}]"
    return Difference(
        Kind.TRANSPOSED, wanted.formula, found, Outcome.FAILS, wanted.leaf, Role.WEIGHT
    )


def _observed_bits(scheme: Scheme, seen: Observed, sizes: Sizes) -> tuple[int | None, str]:
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


def _bits_outcome(scheme: Scheme, seen: Observed, sizes: Sizes, slicing: Slicing) -> Outcome:
    k = seen.k or sizes.k
    if seen.words is None or k is None:
        return Outcome.FAILS
    if scheme.layout is Layout.AWQ:
        want, axis = _words(seen.n or 0, scheme.bits), "N"
    else:
        want, axis = _words(k, scheme.bits), "K"
    return shape_outcome((axis,), (want,), (seen.words,), slicing)


def _words(length: int, bits: int) -> int:
    return -(-length * bits // 32)


def _in_features(scheme: Scheme, seen: Observed, sizes: Sizes) -> int | None:
    if seen.k is not None:
        return seen.k
    if seen.words is not None and seen.words * 32 % scheme.bits == 0:
        own = seen.words * 32 // scheme.bits
        # Odd bit widths fill the last word only in part; the witness then knows K better.
        return sizes.k if sizes.k and _words(sizes.k, scheme.bits) == seen.words else own
    return sizes.k


def _observed_group_size(scheme: Scheme, seen: Observed, k: int | None) -> int | None:
    """The group size that the scales show where it is another than declared; -1 for channel."""
    grouped = scheme.strategy in {Strategy.GROUP, Strategy.TENSOR_GROUP, Strategy.CHANNEL}
    fixed = {Layout.INT8, Layout.FP8, Layout.MXFP4, Layout.MXFP8, Layout.OCP_MX, Layout.GPT_OSS}
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


def _with_group_size(scheme: Scheme, size: int) -> Scheme:
    if size == -1:
        return replace(scheme, strategy=Strategy.CHANNEL, group_size=None)
    strategy = Strategy.GROUP if scheme.strategy is Strategy.CHANNEL else scheme.strategy
    return replace(scheme, strategy=strategy, group_size=size)


def _group_size(
    leaves: Leaves, scheme: Scheme, sizes: Sizes, size: int, slicing: Slicing
) -> Difference:
    scale = next(e for e in expected_tensors(scheme, sizes.n, sizes.k) if e.role is Role.SCALE)
    found = leaves[scale.leaf][1]
    return Difference(
        Kind.GROUP_SIZE,
        f"group_size {scheme.group_size if scheme.group_size else -1}, "
        f"{scale.leaf} {_text(scale.shapes[0])}",
        f"group_size {size}, {scale.leaf} {_text(found)}",
        shape_outcome(scale.axes, scale.shapes[0], found, slicing),
        scale.leaf,
        Role.SCALE,
        size,
        f"{scale.leaf} and K = {sizes.k}",
    )


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


def _tensor_differences(
    leaves: Leaves, scheme: Scheme, sizes: Sizes, slicing: Slicing
) -> Iterator[Difference]:
    expected = expected_tensors(scheme, sizes.n, sizes.k)
    for wanted in expected:
        found = leaves.get(wanted.leaf)
        if found is None:
            yield from _missing(wanted, scheme)
        else:
            yield from _shape_and_type(wanted, found, slicing)
    known = {e.leaf for e in expected}
    for leaf in leaves:
        if leaf in known or leaf in _HARMLESS:
            continue
        dtype, shape = leaves[leaf]
        found_text = f"{leaf} {dtype} {_text(shape)}"
        if leaf == "weight_zero_point":
            yield Difference(
                Kind.SYMMETRY, "no zero points", found_text, Outcome.FAILS, leaf, Role.ZERO_POINT
            )
        else:
            yield Difference(Kind.SURPLUS, "absent", found_text, Outcome.FAILS, leaf)


def _missing(wanted: Expected, scheme: Scheme) -> Iterator[Difference]:
    if not wanted.required:
        return
    text = f"{wanted.leaf} {wanted.dtypes[0]} {_text(wanted.shapes[0], wanted.formula)}"
    asymmetric = wanted.leaf == "weight_zero_point" and not scheme.symmetric
    kind = Kind.SYMMETRY if asymmetric else Kind.MISSING
    yield Difference(kind, text, "absent", Outcome.SILENT, wanted.leaf, wanted.role)


def _shape_and_type(
    wanted: Expected, found: tuple[str, tuple[int, ...]], slicing: Slicing
) -> Iterator[Difference]:
    dtype, shape = found
    shaped = _shape_difference(wanted, shape, slicing)
    if dtype not in wanted.dtypes:
        # copy_ casts, so a wrong type never raises; values meant for another type are garbage.
        outcome = Outcome.CONDITIONAL if dtype == "F8_E5M2" else Outcome.SILENT
        if shaped is not None and wanted.dtypes == ("I32",):
            # Packed into elements of another width: the length follows from the type.
            outcome, shaped = shaped.outcome, None
        yield Difference(
            Kind.DTYPE, " or ".join(wanted.dtypes), dtype, outcome, wanted.leaf, wanted.role
        )
    if shaped is not None:
        yield shaped


def _shape_difference(
    wanted: Expected, shape: tuple[int, ...], slicing: Slicing
) -> Difference | None:
    if any(_fits(shape, s) for s in wanted.shapes):
        return None
    usual = wanted.shapes[0]
    ranks = {len(s) for s in wanted.shapes}
    kind = Kind.SHAPE if len(shape) in ranks else Kind.RANK
    outcome = Outcome.FAILS
    if kind is Kind.SHAPE and len(usual) == len(shape) == len(wanted.axes):
        outcome = shape_outcome(wanted.axes, usual, shape, slicing)
    expected = (
        wanted.formula if None in usual or not usual else f"{wanted.formula} = {_text(usual)}"
    )
    return Difference(kind, expected, _text(shape), outcome, wanted.leaf, wanted.role)


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(
        w is None or w == s for s, w in zip(shape, wanted, strict=True)
    )


def _text(shape: tuple[int | None, ...], formula: str = "") -> str:
    if formula and None in shape:
        return formula
    return "[" + ", ".join("?" if s is None else str(s) for s in shape) + "]"
