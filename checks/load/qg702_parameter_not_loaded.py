"""QG702 parameter-not-loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import DRY_LOAD, Fault, Outcome
from quantgate.rules import rule
from quantgate.vllm.dry_load.words import silent_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.vllm.dry_load.result import DryLoad


@rule("QG702", "parameter-not-loaded", outcome=Outcome.SILENT, per_target=True, tier=DRY_LOAD)
def check(load: DryLoad) -> Iterator[Fault]:
    """VLLM's own loader leaves a parameter without values, or with some of them only.

    ## What it checks

    The dry load: which parameters vLLM builds, and which of their elements a tensor of the
    checkpoint was copied into. Scales of the KV cache, and what vLLM computes from the config, need
    not be in a checkpoint. It is told only where no other rule says that the model is silently
    wrong.

    ## Why it matters

    vLLM asks only of unquantized models whether every parameter was loaded, and then only whether
    something was. What was not loaded keeps what was in memory: the model answers, wrongly.

    ## Example

    ```
    model.layers.1.self_attn.qkv_proj.weight_scale    384 of 512 values loaded
    ```

    The scales of q and v came, those of k did not.

    ## Fix

    Put the missing tensors into the checkpoint, or declare the layer as what is stored.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader: FP8 checkpoints that lack one scale of a fused layer.

    ## Not checked

    Values. Models that BitsAndBytes' or another loader of their own reads.
    """
    yield from silent_faults(
        load,
        {
            "uninitialised": "vLLM {release} loads this model without an error{rank} and writes "
            "nothing into these parameters, which keep what was in memory",
            "partial": "vLLM {release} loads this model without an error{rank} and fills these "
            "parameters only in part; the rest keeps what was in memory",
        },
        "Store the tensors that belong there, or declare the layers as what is stored.",
    )
