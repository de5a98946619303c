"""QG451 tied-head-quantized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

METHODS = ("compressed-tensors", "awq", "modelopt")


@rule("QG451", "tied-head-quantized", outcome=Outcome.SILENT, methods=METHODS, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """The config quantizes an output head that is tied to the embedding.

    ## What it checks

    Where the embeddings are tied and no `lm_head` is stored: whether the declaration gives the head
    that vLLM builds a scheme.

    ## Why it matters

    vLLM creates the quantized head with its scales, then gives it the dense weight of the
    embedding. Nothing is loaded into the scales, and the weight is not the one that they belong to:
    the server starts and answers nonsense.

    ## Example

    ```
    "tie_word_embeddings": true
    "config_groups": {"group_0": {"targets": ["Linear", "re:.*lm_head"], ...}}
    model.embed_tokens.weight    BF16 [151936, 1024]        # and no lm_head
    ```

    ## Fix

    Name `lm_head` in `ignore` (`exclude_modules` for ModelOpt), or take it out of the targets.

    ## Seen in

    - https://github.com/vllm-project/vllm/pull/45535
    - Observed with vLLM 0.32.0's own loader, for five architectures and these three methods.

    ## Not checked

    GPTQ and AutoRound. Wrappers of a text model, and a quantized embedding.
    """
    declaration, decision = model.declaration, model.tied_head
    if declaration is None or declaration.method not in METHODS or decision is None:
        return
    if decision.scheme is None or not _embedding_is_dense(model):
        return
    yield Fault(
        message="The config quantizes the output head, which is the dense embedding: vLLM creates "
        "scales for it that nothing is loaded into, and the model answers nonsense.",
        module="lm_head",
        expected="a dense head (tie_word_embeddings is true)",
        found=str(decision.scheme),
        fix="Ignore lm_head, or take it out of the targets.",
    )


def _embedding_is_dense(model: Model) -> bool:
    built = model.built
    names = [m for m in model.modules if "embed" in m and built and built.has_beside_layers(m)]
    return len(names) == 1 and model.modules[names[0]].keys() == {"weight"}
