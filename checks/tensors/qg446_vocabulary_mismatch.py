"""QG446 vocabulary-mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.scheme import Layout
from quantgate.quantization.sizes import CONFIG
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

PADDING = 64
"""vLLM pads the vocabulary to a multiple (DEFAULT_VOCAB_PADDING_SIZE, 0.10.2 to 0.33.0)."""


@rule("QG446", "vocabulary-mismatch")
def check(model: Model) -> Iterator[Fault]:
    """The embedding or the head has another number of rows than the vocabulary.

    ## What it checks

    For known architectures: that the embedding and an untied head have `vocab_size` rows, and that
    a GPTQ or AWQ packed head has a `vocab_size` that is a multiple of 64.

    ## Why it matters

    vLLM asks for exactly `vocab_size` rows and stops with a bare `AssertionError`. It pads the
    vocabulary to a multiple of 64; a dense head of any size is padded with zeros, but of a GPTQ
    or AWQ head the vocabulary is the second axis, and the copy ends in `The size of tensor a (…)
    must match the size of tensor b (…)` (layers/vocab_parallel_embedding.py, all releases).

    ## Example

    ```
    "vocab_size": 32000
    model.embed_tokens.weight   BF16 [32001, 4096]     # a token was added, the config not changed
    ```

    ## Fix

    Write the number of rows into `vocab_size`, or cut the tensors. Leave a head dense whose
    vocabulary is no multiple of 64.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/15124
    - Observed with vLLM 0.32.0's own loader, for eleven architectures.

    ## Not checked

    Architectures whose sizes quantgate does not take from config.json. A head that is tied.
    """
    for module, leaves in model.modules.items():
        leaf = module.rpartition(".")[2]
        if leaf not in {"embed_tokens", "lm_head"}:
            continue
        sizes = model.sizes(module)
        if sizes.witness != CONFIG or sizes.n is None:
            continue
        weight = leaves.get("weight")
        scheme = model.schemes.get(module)
        if leaf == "lm_head" and scheme and scheme.layout in {Layout.GPTQ, Layout.AWQ}:
            if sizes.n % PADDING and "qweight" in leaves:
                yield Fault(
                    message="The head is packed, and its vocabulary is no multiple of 64: vLLM "
                    "pads its parameters and cannot copy the tensors into them (The size of tensor "
                    "a (…) must match the size of tensor b (…)).",
                    module=module,
                    expected=f"vocab_size a multiple of {PADDING}",
                    found=f"vocab_size {sizes.n}",
                    fix="Leave the head dense (`lm_head: false`).",
                )
        elif (
            weight is not None
            and len(weight[1]) == 2
            and weight[1][0] != sizes.n
            and not (leaf == "lm_head" and (module in model.schemes or _tied(model)))
        ):
            yield Fault(
                message="vLLM wants exactly as many rows as config.json's vocab_size counts tokens "
                "and stops with a bare `AssertionError`.",
                module=module,
                tensor=f"{module}.weight",
                expected=f"{sizes.n} rows",
                found=f"{weight[1][0]} rows",
                fix="Correct vocab_size in config.json, or the tensor.",
            )


def _tied(model: Model) -> bool:
    config = model.checkpoint.config
    text = config.get("text_config")
    inner = text if isinstance(text, dict) else {}
    return config.get("tie_word_embeddings", inner.get("tie_word_embeddings")) is not False
