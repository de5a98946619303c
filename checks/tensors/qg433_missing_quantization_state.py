"""QG433 missing-quantization-state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.bitsandbytes import state_gaps
from quantgate.quantization.scheme import Layout
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Leaves, Model

_LAYOUTS = frozenset({Layout.BNB_4BIT, Layout.BNB_INT8})


@rule("QG433", "missing-quantization-state", methods=["bitsandbytes"], of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """A bitsandbytes weight lacks a part of the state that turns it back into numbers.

    ## What it checks

    That every 4-bit weight has `weight.quant_state.bitsandbytes__nf4` (or `fp4`),
    `weight.absmax` and `weight.quant_map`, with double quantization also `weight.nested_absmax` and
    `weight.nested_quant_map`, and that there is one absmax per block of 32 to 4096 values. That
    every 8-bit weight has `SCB`.

    ## Why it matters

    A 4-bit weight is flat bytes: even its rows and columns are only in the state. Without `absmax`
    or `quant_map` the load ends in a `KeyError`; without `quant_state` or `SCB` the weight loads,
    and vLLM stops at `IndexError: list assignment index out of range` or, in a layer that is not
    fused, at the first forward pass. A wrong number of blocks is compared by nobody.

    ## Example

    ```
    model.layers.0.mlp.down_proj.weight            U8  [65536, 1]
    model.layers.0.mlp.down_proj.weight.quant_map  F32 [16]
                                                   # no …weight.absmax
    ```

    ## Fix

    Export the module again; check whether a weight file or an index entry was lost.

    ## Seen in

    - Observed with the loader of vLLM 0.27.1 and bitsandbytes 0.50.2.

    ## Not checked

    What the bytes of `quant_state` say (block size, rows and columns).
    """
    for module, scheme in model.schemes.items():
        if scheme is None or scheme.layout not in _LAYOUTS:
            continue
        leaves = model.modules[module]
        if not _is_of(scheme.layout, leaves):
            continue  # dense, or of the other kind: QG416 and QG419
        for gap in state_gaps(leaves, scheme.layout):
            yield Fault(
                message="A part of the quantization state is missing or does not fit the weight: "
                f"{gap.effect}.",
                module=module,
                tensor=f"{module}.{gap.leaf}",
                expected=gap.expected,
                found=gap.found,
                fix="Export the module again; check whether a weight file or an index entry was "
                "lost.",
                outcome=gap.outcome,
            )


def _is_of(layout: Layout, leaves: Leaves) -> bool:
    """Whether the weight itself is one of the declared kind."""
    dtype = leaves["weight"][0] if "weight" in leaves else ""
    if layout is Layout.BNB_INT8:
        return dtype == "I8" and not any(leaf.startswith("weight.") for leaf in leaves)
    return dtype in {"U8", "I8"} and "SCB" not in leaves
