"""QG509 surplus-bias."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.rules import rule
from quantgate.vllm.biases import has_qkv_bias, looks_biases_up, looks_expert_biases_up
from quantgate.vllm.layers import expert_block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")


@rule("QG509", "surplus-bias", severity=Severity.INFO, outcome=Outcome.CONDITIONAL)
def check(model: Model) -> Iterator[Fault]:
    """A bias is stored for a module that has none in vLLM's class.

    ## What it checks

    Biases of the attention's projections and of routed experts, where the class is known to have
    none of them.

    ## Why it matters

    vLLM drops them without a word: right where they are zeros, as in old GPTQ files, and a
    different model where they are not. Llama 4's loader looks every name up and stops with
    `KeyError: 'layers.0.self_attn.qkv_proj.bias'`, and so does DeepSeek's for routed
    experts, unless they are GPTQ's.

    ## Example

    ```
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": false
    model.layers.0.self_attn.q_proj.bias       # dropped
    ```

    ## Fix

    Set `attention_bias` if the model was trained with biases, or leave them out.

    ## Seen in

    - https://github.com/huggingface/optimum/pull/1827 (biases that only the quantizer added)
    - Observed with vLLM 0.32.0's own loader, for 29 architectures.

    ## Not checked

    Values: whether the biases are zeros, as AutoGPTQ writes them. Other classes.
    """
    if model.decoder is None:
        return
    method = model.declaration.method if model.declaration else ""
    if looks_expert_biases_up(model.naming, method):
        yield from _of_experts(model, f"{model.decoder.root}.")
    if has_qkv_bias(model.naming, model.checkpoint.config) is not False:
        return
    fails = looks_biases_up(model.naming)
    for module, leaves in model.modules.items():
        if (
            "bias" not in leaves
            or not module.startswith(f"{model.decoder.root}.")
            or not module.endswith(tuple(f"self_attn.{p}" for p in _ATTENTION))
            or (module.endswith("o_proj") and not fails)
        ):
            continue
        yield Fault(
            message="vLLM's class has no such bias: "
            + (
                "its loader looks every name up and stops with `KeyError`."
                if fails
                else "it is dropped without a word, and the model computes without it."
            ),
            module=module,
            tensor=f"{module}.bias",
            expected="no bias",
            found=f"bias {list(leaves['bias'][1])}",
            fix="Leave the biases out, or set attention_bias if the model was trained with them.",
            severity=Severity.ERROR if fails else None,
            outcome=Outcome.FAILS if fails else None,
        )


def _of_experts(model: Model, root: str) -> Iterator[Fault]:
    for module, leaves in model.modules.items():
        quantized = model.schemes.get(module) is not None
        if quantized and "bias" in leaves and module.startswith(root) and expert_block(module):
            yield Fault(
                message="vLLM's class has no such bias: its loader looks every name of an expert "
                "up and stops with `KeyError`.",
                module=module,
                tensor=f"{module}.bias",
                expected="no bias",
                found=f"bias {list(leaves['bias'][1])}",
                fix="Leave the biases out.",
                severity=Severity.ERROR,
                outcome=Outcome.FAILS,
            )
