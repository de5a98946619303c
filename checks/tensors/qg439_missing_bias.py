"""QG439 missing-bias."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.rules import rule
from quantgate.vllm.biases import has_qkv_bias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG439", "missing-bias", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """A bias that vLLM's class has is not stored.

    ## What it checks

    That q, k and v of every layer have a bias where the class gives them one: always in Qwen 2, and
    with `attention_bias: true` in Llama, Granite, Qwen 3, GLM 4, Gemma 2 and 3 and Seed-OSS, also
    where the three are fused on disk. With a base model (`--base`): every bias that the base has.

    ## Why it matters

    vLLM allocates one bias for q, k and v together, and never asks whether it was filled. What is
    missing keeps whatever was in memory: the server starts, then answers nonsense.

    ## Example

    ```
    "architectures": ["Qwen2ForCausalLM"]
    model.layers.0.self_attn.q_proj.bias
    model.layers.0.self_attn.v_proj.bias       # and none for k_proj
    ```

    ## Fix

    Export again, or copy the biases from the base model: they are never quantized.

    ## Seen in

    - https://github.com/paiml/entrenar/issues/258 (Qwen 2.5 exported without its biases)
    - https://github.com/vllm-project/vllm/issues/39663 (what a lost bias does to Qwen 2)
    - Observed with vLLM 0.32.0's own loader: silent for all of q, k and v and for one of them.

    ## Not checked

    Other classes and other modules without a base model.
    """
    base = model.base_model
    biased = base.biased if base is not None and base.usable else frozenset()
    expected = has_qkv_bias(model.naming, model.checkpoint.config) is True
    decoder = model.decoder
    for layer in model.layers:
        attention = (
            expected
            and decoder is not None
            and layer.prefix.rpartition(".")[2] == "qkv_proj"
            and all(_in_decoder(m, decoder.root) and not decoder.is_draft(m) for m in layer.modules)
        )
        for module in layer.modules:
            if "bias" in model.modules[module]:
                continue
            in_base = model.naming.module(module) in biased
            if attention or in_base:
                witness = (
                    "The base model has this bias" if in_base else "vLLM's class has this bias"
                )
                yield Fault(
                    message=f"{witness} and it is not stored: vLLM leaves it uninitialised, so the "
                    "server starts and answers nonsense.",
                    module=module,
                    tensor=f"{module}.bias",
                    expected="a bias",
                    found="absent",
                    fix="Export again, or copy the biases from the base model.",
                )


def _in_decoder(module: str, root: str) -> bool:
    return module.startswith(f"{root}.")
