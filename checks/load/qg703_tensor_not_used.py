"""QG703 tensor-not-used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import DRY_LOAD, Fault, Outcome
from quantgate.rules import rule
from quantgate.vllm.dry_load.words import silent_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.vllm.dry_load.result import DryLoad


@rule("QG703", "tensor-not-used", outcome=Outcome.SILENT, per_target=True, tier=DRY_LOAD)
def check(load: DryLoad) -> Iterator[Fault]:
    """VLLM's own loader passes over a layer's tensor, or over a part of it.

    ## What it checks

    The dry load: which elements of each tensor in the checkpoint reached a parameter. What vLLM
    drops by design (rotary tables, surplus biases, draft layers, scales of the KV cache) is left
    out. It is told only where no other rule says that the model is silently wrong.

    ## Why it matters

    The quantizer stored these values because the model needs them. vLLM computes without them.

    ## Example

    ```
    model.layers.1.mlp.down_proj.scales    1,024 of 2,048 values used
    ```

    ## Fix

    Most often the declaration does not fit: another group size, another type, another name. Make it
    say what is stored.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader: GPTQ scales of half the declared group size.

    ## Not checked

    Tensors outside the layers (towers, heads), of which vLLM may leave out some on purpose.
    """
    yield from silent_faults(
        load,
        {
            "truncated": "vLLM {release} loads this model without an error{rank} and cuts these "
            "tensors to the size it has room for",
            "dropped": "vLLM {release} loads this model without an error{rank} and loads these "
            "tensors into nothing",
        },
        "Make the declaration say what is stored.",
    )
