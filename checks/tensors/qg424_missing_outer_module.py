"""QG424 missing-outer-module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.rules import rule
from quantgate.vllm.structure import missing_outer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG424", "missing-outer-module", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """The embedding, the final norm or the output head is not stored.

    ## What it checks

    That there is an embedding and a norm outside the layers, under any usual name, and an output
    head where `tie_word_embeddings` is false, or is left out and false by default.

    ## Why it matters

    vLLM builds what the config counts and asks only for unquantized models whether everything
    came. The parameters keep whatever was in memory: the server starts, then answers nonsense.

    ## Example

    ```
    "tie_word_embeddings": false
    model.embed_tokens.weight                # and no lm_head.weight
    ```

    ## Fix

    Export again, or write `"tie_word_embeddings": true` if the head is the embedding.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/57108 (vLLM does not ask whether a
      quantized checkpoint is complete; the report is about lost scales)
    - Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Towers. A head of an architecture that vLLM's classes were not looked at for, where the config
    does not say whether it is tied.
    """
    decoder = model.decoder
    if decoder is None:
        return
    for module in missing_outer(model.checkpoint.config, decoder, model.modules, model.built):
        head = module == "lm_head"
        yield Fault(
            message="No tensor of this module is stored: vLLM leaves it uninitialised, so the "
            "server starts and answers nonsense."
            + (" By the config, the head is not tied to the embedding." if head else ""),
            module=module,
            expected="stored",
            found="absent",
            fix="Export again, or write tie_word_embeddings: true if the head is the embedding."
            if head
            else "Export again, or upload the weight file that holds it.",
        )
