"""The blocks of an FP8 weight as its scale shows them, against the declared ones."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from quantgate.findings import Outcome
from quantgate.quantization.difference import Difference, Kind, shape_text
from quantgate.quantization.expected import Role, expected_tensors
from quantgate.quantization.scheme import Layout, Strategy
from quantgate.vllm.loading import shape_outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.quantization.scheme import Scheme
    from quantgate.vllm.loading import Slicing

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

# Blocks that are in use, the usual one first: it is meant where a small weight fits several.
_USUAL = ((128, 128), (64, 64), (32, 32), (256, 256), (1, 128), (128, 1))
# vLLM's and transformers' fp8 call the scale so if, and only if, there is one for each block.
_OF_BLOCKS, _OF_TENSOR = "weight_scale_inv", "weight_scale"


def other_block(
    leaves: Leaves, scheme: Scheme, slicing: Slicing
) -> tuple[Difference, Scheme] | None:
    """The difference between the declared blocks and the stored ones, and the scheme meant.

    None where the scale is as declared, missing, or of no shape that any usual block explains.
    """
    if scheme.layout is not Layout.FP8 or scheme.scale_rank is not None:
        return None
    shape = leaves["weight"][1] if "weight" in leaves else ()
    name = next((s for s in (scheme.scale_name, _OF_BLOCKS, _OF_TENSOR) if s in leaves), "")
    if len(shape) != 2 or not name:
        return None
    found = leaves[name][1]
    renamed = name != scheme.scale_name
    if renamed and scheme.strategy is Strategy.BLOCK and found in {(), (1,)}:
        meant = replace(scheme, strategy=Strategy.TENSOR, block=None, scale_name=name)
        return _difference(scheme, meant, name, Outcome.FAILS), meant
    if not renamed and (scheme.strategy is not Strategy.BLOCK or _fits(shape, found, scheme.block)):
        return None
    if renamed and name != _OF_BLOCKS:
        return None
    block = next((b for b in _USUAL if _fits(shape, found, b)), None)
    if block is None or found == (1, 1):
        return None
    meant = replace(scheme, strategy=Strategy.BLOCK, block=block, scale_name=name)
    outcome = Outcome.FAILS
    if not renamed:
        wanted = next(e for e in expected_tensors(scheme, *shape) if e.role is Role.SCALE)
        outcome = shape_outcome(wanted.axes, wanted.shapes[0], found, slicing)
    return _difference(scheme, meant, f"{name} {shape_text(found)}", outcome), meant


def _fits(shape: tuple[int, ...], scale: tuple[int, ...], block: tuple[int, int] | None) -> bool:
    return block is not None and scale == tuple(
        ceil(length / part) for length, part in zip(shape, block, strict=True)
    )


def _difference(declared: Scheme, meant: Scheme, scale: str, outcome: Outcome) -> Difference:
    return Difference(
        Kind.BLOCK,
        _text(declared),
        _text(meant),
        outcome,
        scale.partition(" ")[0],
        Role.SCALE,
        meant.block,
        scale,
    )


def _text(scheme: Scheme) -> str:
    if scheme.block is None:
        return "one scale per tensor"
    return "blocks of {} x {}".format(*scheme.block)
