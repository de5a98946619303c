"""QG445 head-scale-per-block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.scheme import Strategy
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG445", "head-scale-per-block")
def check(model: Model) -> Iterator[Fault]:
    """The output head is declared with one scale per block of rows, which vLLM cannot load.

    ## What it checks

    Whether the declaration gives `lm_head` a scheme with the strategy `block`.

    ## Why it matters

    A head is loaded by the loader of the vocabulary, which asks that every tensor has a row per
    token. A block scale has one per 128 tokens: the load ends in a bare `AssertionError`
    (layers/vocab_parallel_embedding.py, all releases).

    ## Example

    ```
    "targets": ["Linear", "re:.*lm_head"], "weights": {"strategy": "block", …}
    lm_head.weight        F8_E4M3 [32000, 4096]
    lm_head.weight_scale  BF16 [250, 32]
    ```

    ## Fix

    Leave the head dense and name it in the ignore list, or quantize it per channel.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader, for eleven architectures.

    ## Not checked

    Methods that never quantize the head, whatever is declared.
    """
    for layer in model.layers:
        decision = model.decisions.get(layer.prefix)
        scheme = decision.scheme if decision is not None else None
        if layer.cls == "ParallelLMHead" and scheme and scheme.strategy is Strategy.BLOCK:
            yield Fault(
                message="The head is declared with one scale per block, and vLLM's loader of the "
                "vocabulary wants one row per token in every tensor: the load ends in a bare "
                "`AssertionError`.",
                module=layer.modules[0],
                expected="a dense head, or a scale per channel",
                found=str(scheme),
                fix="Leave the head dense and ignore it, or quantize it per channel.",
            )
