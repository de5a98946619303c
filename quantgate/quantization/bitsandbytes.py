"""bitsandbytes declarations, and what one of its modules must hold.

Source: vLLM 0.27.1, layers/quantization/bitsandbytes.py and model_loader/bitsandbytes_loader.py,
the last release that has them; equal in what matters here from 0.10.2 on. What is said to fail was
seen to fail there, with bitsandbytes 0.50.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from quantgate.findings import Outcome
from quantgate.quantization.declaration import Declaration, ProblemKind, Reader, shown
from quantgate.quantization.scheme import Activations, Layout, Scheme, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

STATE = "weight.quant_state.bitsandbytes__"
TYPES = ("nf4", "fp4")
BLOCKS = (64, 128, 32, 256, 512, 1024, 2048, 4096)  # functional.py dequantize_4bit


@dataclass(frozen=True, kw_only=True)
class BitsAndBytesDeclaration(Declaration):
    """The keys of a bitsandbytes block that vLLM reads.

    Attributes:
        eight: `load_in_8bit`; everything else is 4 bits, also where neither flag is set.
        four_bit_type: `bnb_4bit_quant_type`. vLLM goes by the tensors' own word.
        skipped: `llm_int8_skip_modules`.
    """

    eight: bool
    four_bit_type: str
    skipped: tuple[str, ...]

    def scheme(self) -> Scheme:
        """The scheme of every Linear that is not skipped."""
        if self.eight:
            inputs = Activations(8, "int", Strategy.TOKEN, dynamic=True)
            return Scheme(Layout.BNB_INT8, 8, "int", Strategy.CHANNEL, activations=inputs)
        return Scheme(Layout.BNB_4BIT, 4, self.four_bit_type.rstrip("4"), Strategy.FLAT)


@dataclass(frozen=True, slots=True)
class StateGap:
    """A companion of a weight that is missing or does not fit it."""

    leaf: str
    expected: str
    found: str
    effect: str
    outcome: Outcome = Outcome.FAILS


def parse(raw: Mapping[str, Any], file: str, path: str) -> BitsAndBytesDeclaration:
    """Read a bitsandbytes block and note what vLLM refuses."""
    reader = Reader(raw)
    storage = raw.get("bnb_4bit_quant_storage")
    if storage not in (None, "uint8"):
        error = f"Unsupported bnb_4bit_quant_storage: {shown(storage)}"
        reader.note(ProblemKind.VALUE, "bnb_4bit_quant_storage", "uint8", error)
    kind = raw.get("bnb_4bit_quant_type")
    return BitsAndBytesDeclaration(
        method="bitsandbytes",
        file=file,
        path=path,
        raw=raw,
        eight=bool(raw.get("load_in_8bit")),
        four_bit_type=kind if kind in TYPES else "fp4",
        skipped=reader.strings("llm_int8_skip_modules"),
        problems=tuple(reader.problems),
    )


def stored_type(leaves: Leaves) -> str:
    """The 4-bit type that a module's own tensors name, empty if they name none."""
    return next((t for t in TYPES if STATE + t in leaves), "")


def state_gaps(leaves: Leaves, layout: Layout) -> Iterator[StateGap]:
    """What is wrong with the companions of one quantized weight."""
    if layout is Layout.BNB_INT8:
        if "SCB" not in leaves:
            yield StateGap("SCB", "SCB F32 [N]", "absent", _AT_FIRST_USE)
        return
    kind = stored_type(leaves)
    if not kind:
        named = [leaf for leaf in leaves if leaf.startswith("weight.quant_state")]
        yield StateGap(
            f"{STATE}nf4", f"{STATE}nf4 or fp4", ", ".join(named) or "absent", _AT_FIRST_USE
        )
        return
    for leaf, text in (("absmax", "F32 or U8 [blocks]"), ("quant_map", "F32 [16]")):
        if f"weight.{leaf}" not in leaves:
            effect = f"the load ends in `KeyError: '{leaf}'`"
            yield StateGap(f"weight.{leaf}", f"weight.{leaf} {text}", "absent", effect)
    yield from _nested_gaps(leaves)
    yield from _block_gap(leaves)


_AT_FIRST_USE = (
    "vLLM takes the weight for one without a state, and stops at the first forward pass or before"
)


def _nested_gaps(leaves: Leaves) -> Iterator[StateGap]:
    """Double quantization: bytes as absmax, and two tensors that scale them."""
    absmax, nested = leaves.get("weight.absmax"), "weight.nested_absmax" in leaves
    if absmax is None:
        return
    if nested and "weight.nested_quant_map" not in leaves:
        yield StateGap(
            "weight.nested_quant_map",
            "weight.nested_quant_map F32 [256]",
            "absent",
            "the load ends in `KeyError: 'nested_quant_map'`",
        )
    if absmax[0] == "U8" and not nested:
        yield StateGap(
            "weight.nested_absmax",
            "weight.nested_absmax F32 [blocks of blocks]",
            "absent",
            "vLLM takes the packed absmax for the scales themselves, and the layer computes "
            "nonsense",
            Outcome.SILENT,
        )


def _block_gap(leaves: Leaves) -> Iterator[StateGap]:
    """One absmax for every block of values of the flat weight."""
    weight, absmax = leaves.get("weight"), leaves.get("weight.absmax")
    if weight is None or absmax is None or weight[0] not in {"U8", "I8"}:
        return
    values, found = 2 * prod(weight[1]), prod(absmax[1])
    if found not in {ceil(values / size) for size in BLOCKS}:
        yield StateGap(
            "weight.absmax",
            f"[{ceil(values / 64)}] for {values:,} values in blocks of 64",
            f"[{found}]",
            "vLLM does not compare the two, and scales with the wrong values",
            Outcome.SILENT,
        )
