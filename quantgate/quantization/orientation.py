"""Whether a weight lies the way its declaration says: packed axis, rows and columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.findings import Outcome
from quantgate.quantization.difference import Difference, Kind, shape_text
from quantgate.quantization.expected import Role, expected_tensors
from quantgate.quantization.scheme import Layout, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.quantization.observed import Observed
    from quantgate.quantization.scheme import Scheme, Sizes

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]


def other_axis(scheme: Scheme, seen: Observed, leaves: Leaves) -> Difference:
    """A qweight packed along the axis of the other format, GPTQ's or AWQ's."""
    wanted = expected_tensors(scheme, seen.n, seen.k)[0]
    along = {Layout.GPTQ: "K (input)", Layout.AWQ: "N (output)"}
    other = Layout.AWQ if scheme.layout is Layout.GPTQ else Layout.GPTQ
    found = expected_tensors(replace(scheme, layout=other), seen.n, seen.k)[0]
    return Difference(
        Kind.AXIS,
        f"{wanted.formula}, packed along {along[scheme.layout]}",
        f"{shape_text(leaves['qweight'][1])} = {found.formula}, packed along {along[other]}",
        Outcome.FAILS,
        "qweight",
        Role.WEIGHT,
        witness="scales",
    )


def lies_on_its_side(leaves: Leaves, scheme: Scheme, sizes: Sizes, seen: Observed) -> bool:
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


def transposed_weight(leaves: Leaves, scheme: Scheme) -> Difference:
    """A weight whose two axes are swapped."""
    wanted = expected_tensors(scheme, None, None)[0]
    turned = ", ".join(reversed(wanted.formula.strip("[]").split(", ")))
    found = f"{shape_text(leaves[wanted.leaf][1])} = [{turned}]"
    return Difference(
        Kind.TRANSPOSED, wanted.formula, found, Outcome.FAILS, wanted.leaf, Role.WEIGHT
    )
