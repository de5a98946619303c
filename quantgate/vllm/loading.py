"""How vLLM's weight loaders treat a tensor whose shape is not the parameter's.

Column-like layers slice the output axis, row-parallel layers the input axis, and they do it also
with one rank: the loader takes as many entries as it needs, then asserts equal shapes. A tensor
that is too long on the sliced axis therefore loads without a word (vLLM 0.33.0,
vllm/model_executor/parameter.py, classes _ColumnvLLMParameter and RowvLLMParameter). The experts'
loader raises for a tensor that is too big and broadcasts or narrows a smaller one
(layers/fused_moe/routed_experts.py).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from quantgate.findings import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence


class Slicing(StrEnum):
    """Which kind of layer loads a module, named after the axis it slices."""

    COLUMN = "column"  # q, k, v, gate, up: the output axis N
    ROW = "row"  # o, down: the input axis K
    REPLICATED = "replicated"  # nothing
    EXPERTS = "experts"


_COLUMN = frozenset(
    {
        *("q_proj", "k_proj", "v_proj", "qkv_proj", "query_key_value", "c_attn"),
        *("gate_proj", "up_proj", "gate_up_proj", "w1", "w3", "fc1", "c_fc", "dense_h_to_4h"),
        *("q_b_proj", "kv_b_proj", "in_proj", "in_proj_qkvz", "in_proj_ba", "lm_head"),
    }
)
_ROW = frozenset(
    {"o_proj", "down_proj", "out_proj", "dense", "dense_4h_to_h", "fc2", "c_proj", "w2"}
)


def slicing_of(module: str) -> Slicing:
    """The kind of layer that loads a checkpoint module, judged by its name."""
    parts = module.split(".")
    if len(parts) >= 3 and parts[-3] == "experts" and parts[-2].isdigit():
        return Slicing.EXPERTS
    leaf = parts[-1]
    if leaf == "experts":
        return Slicing.EXPERTS
    if leaf in _COLUMN:
        return Slicing.COLUMN
    return Slicing.ROW if leaf in _ROW else Slicing.REPLICATED


def shape_consequence(outcome: Outcome) -> str:
    """What that outcome looks like, as the end of a sentence."""
    if outcome is Outcome.SILENT:
        return "vLLM cuts or stretches it to fit without a word, and the model answers nonsense"
    return (
        "the load ends in a bare `AssertionError` or `start (..) + length (..) exceeds "
        "dimension size`"
    )


def shape_outcome(
    axes: Sequence[str], expected: Sequence[int | None], found: Sequence[int], slicing: Slicing
) -> Outcome:
    """What loading a tensor of shape `found` into a parameter of shape `expected` does.

    `axes` says what lies along each axis: `N`, `K` or `-`. The shapes are known to differ.
    """
    if len(expected) != len(found):
        return Outcome.FAILS
    sliced = {Slicing.COLUMN: "N", Slicing.ROW: "K"}.get(slicing)
    for axis, want, have in zip(axes, expected, found, strict=True):
        if want is None or want == have:
            continue
        if slicing is Slicing.EXPERTS:
            if have > want:
                return Outcome.FAILS
        elif axis != sliced or have < want:
            return Outcome.FAILS
    return Outcome.SILENT
