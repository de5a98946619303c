"""QG701 vllm-stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import DRY_LOAD, Fault
from quantgate.rules import rule
from quantgate.vllm.dry_load.result import DryOutcome
from quantgate.vllm.dry_load.words import WHILE, one_line, rank_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.vllm.dry_load.result import DryLoad


@rule("QG701", "vllm-stops", per_target=True, tier=DRY_LOAD)
def check(load: DryLoad) -> Iterator[Fault]:
    """VLLM's own loader stops with an error on this model.

    ## What it checks

    The dry load: vLLM reads the config, builds the model and loads the weights, on tensors that
    have the types and shapes of the headers and no values. The finding names the phase, the
    exception, what vLLM said and the tensor it was at. It is told only where no other rule says
    that the model fails.

    ## Why it matters

    vLLM will stop in the same place when the model is served.

    ## Example

    ```
    model.layers.0.mlp.down_proj.weight
    While it loads the weights, vLLM 0.32.0 stops with KeyError: 'layers.0.mlp.down_proj.weight'
    ```

    ## Fix

    What vLLM said is the only hint there is. No rule of ours foresaw it, so please report it, with
    the archive that `quantgate pack` writes.

    ## Seen in

    - Llama 4 in FP8 blocks: the permutation of q and k stops over the scales (vLLM 0.32.0).

    ## Not checked

    What comes after loading: memory, kernels, values. Where a stand-in for a kernel or a missing
    library stopped it, the outcome is unknown, and nothing is found.
    """
    if load.outcome is not DryOutcome.FAILS:
        return
    said = f": {one_line(load.message)}" if load.message else ""
    yield Fault(
        message=f"{WHILE.get(load.phase, 'While it loads the model')}, vLLM "
        f"{load.target.release} stops{rank_words(load)} with "
        f"{load.exception or 'an error'}{said}".rstrip(".")
        + ".",
        tensor=load.tensor,
        found=load.where and f"raised at {load.where}",
        fix="Repair what vLLM names. No other rule foresaw this: please report it, with what "
        "`quantgate pack` writes.",
    )
