"""QG440 bias-length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.quantization.observed import observe
from quantgate.rules import rule
from quantgate.vllm.biases import has_qkv_bias
from quantgate.vllm.loading import shape_consequence, shape_outcome, slicing_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG440", "bias-length")
def check(model: Model) -> Iterator[Fault]:
    """A bias has another length than its layer has outputs.

    ## What it checks

    The bias of q, k and v, where the class is known to have one, against the size that config.json
    gives, or the rows of the weight.

    ## Why it matters

    A bias that is too long is cut without a word, since its axis is the one that ranks share; one
    that is too short ends the load in `start (0) + length (..) exceeds dimension size (..)`.

    ## Example

    ```
    model.layers.0.self_attn.q_proj.weight   BF16 [256, 256]
    model.layers.0.self_attn.q_proj.bias     BF16 [320]
    ```

    ## Fix

    Export the bias again, or copy it from the base model.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Biases that vLLM's class may not have: it drops those.
    """
    if has_qkv_bias(model.naming, model.checkpoint.config) is not True or model.decoder is None:
        return
    for layer in model.layers:
        if layer.prefix.rpartition(".")[2] != "qkv_proj":
            continue
        for module in layer.modules:
            leaves = model.modules[module]
            bias = leaves.get("bias")
            if bias is None or not module.startswith(f"{model.decoder.root}."):
                continue
            rows = model.sizes(module).n or observe(leaves).n
            if rows is None or bias[1] == (rows,):
                continue
            outcome = (
                shape_outcome(("N",), (rows,), bias[1], slicing_of(module))
                if len(bias[1]) == 1
                else Outcome.FAILS
            )
            yield Fault(
                message="The bias is not as long as the layer is high: "
                f"{shape_consequence(outcome)}.",
                module=module,
                tensor=f"{module}.bias",
                expected=f"[{rows}]",
                found=str(list(bias[1])),
                fix="Export the bias again, or copy it from the base model.",
                outcome=outcome,
            )
