"""Where single tensors of a module differ from the ones that vLLM will allocate, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Outcome
from quantgate.quantization.difference import Difference, Kind, fits, shape_text
from quantgate.quantization.expected import Expected, Role, expected_tensors
from quantgate.vllm.loading import shape_outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.quantization.scheme import Scheme, Sizes
    from quantgate.vllm.loading import Slicing

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

# Leaves that vLLM drops or that belong to the attention, not to the Linear (base_config.py
# get_checkpoint_weight_mapper, get_cache_scale_mapper).
HARMLESS = frozenset(
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


def tensor_differences(
    leaves: Leaves, scheme: Scheme, sizes: Sizes, slicing: Slicing
) -> Iterator[Difference]:
    """Missing, surplus, misshapen and mistyped tensors of a module of known size."""
    expected = expected_tensors(scheme, sizes.n, sizes.k)
    for wanted in expected:
        found = leaves.get(wanted.leaf)
        if found is None:
            yield from _missing(wanted, scheme)
        else:
            yield from _shape_and_type(wanted, found, slicing)
    known = {e.leaf for e in expected}
    for leaf in leaves:
        if leaf in known or leaf in HARMLESS:
            continue
        dtype, shape = leaves[leaf]
        found_text = f"{leaf} {dtype} {shape_text(shape)}"
        if leaf == "weight_zero_point":
            yield Difference(
                Kind.SYMMETRY, "no zero points", found_text, Outcome.FAILS, leaf, Role.ZERO_POINT
            )
        else:
            yield Difference(Kind.SURPLUS, "absent", found_text, Outcome.FAILS, leaf)


def _missing(wanted: Expected, scheme: Scheme) -> Iterator[Difference]:
    if not wanted.required:
        return
    text = f"{wanted.leaf} {wanted.dtypes[0]} {shape_text(wanted.shapes[0], wanted.formula)}"
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
    if any(fits(shape, s) for s in wanted.shapes):
        return None
    usual = wanted.shapes[0]
    ranks = {len(s) for s in wanted.shapes}
    kind = Kind.SHAPE if len(shape) in ranks else Kind.RANK
    outcome = Outcome.FAILS
    if kind is Kind.SHAPE and len(usual) == len(shape) == len(wanted.axes):
        outcome = shape_outcome(wanted.axes, usual, shape, slicing)
    expected = (
        wanted.formula if None in usual or not usual else f"{wanted.formula} = {shape_text(usual)}"
    )
    return Difference(kind, expected, shape_text(shape), outcome, wanted.leaf, wanted.role)
