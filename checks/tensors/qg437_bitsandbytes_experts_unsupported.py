"""QG437 bitsandbytes-experts-unsupported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.quantization.bitsandbytes import BitsAndBytesDeclaration, stored_type
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG437", "bitsandbytes-experts-unsupported", methods=["bitsandbytes"])
def check(model: Model) -> Iterator[Fault]:
    """The routed experts are quantized by bitsandbytes in a way that vLLM has for Linears only.

    ## What it checks

    Routed experts in 8 bits, and routed experts in 4 bits whose own state says `fp4`.

    ## Why it matters

    For 8 bits vLLM has no experts: `Prequant BitsAndBytes 8bit models with FusedMoE is not
    supported yet`. For 4 bits it puts the states of all experts together and writes `nf4` into the
    common one, whatever theirs said; the kernel goes by that word and not by the stored table, so
    fp4 values are read as others.

    ## Example

    ```
    quantization_config: {"quant_method": "bitsandbytes", "load_in_8bit": true}
    model.layers.0.block_sparse_moe.experts.0.w1.weight  I8 [14336, 4096]
    ```

    ## Fix

    Quantize the experts to nf4, or publish the model in another method.

    ## Seen in

    - vLLM 0.27.1, model_loader/bitsandbytes_loader.py (_get_bnb_target_modules and
      _fuse_moe_quant_states), alike from 0.10.2 on; and bitsandbytes 0.50.2, functional.py
      dequantize_4bit.

    ## Not checked

    Plugins that bring the method to newer releases.
    """
    declared = model.declaration
    if not isinstance(declared, BitsAndBytesDeclaration):
        return
    for layer in model.layers:
        if layer.cls != "RoutedExperts":
            continue
        if declared.eight:
            yield Fault(
                message="vLLM has no 8-bit experts of bitsandbytes and stops: `Prequant "
                "BitsAndBytes 8bit models with FusedMoE is not supported yet`.",
                module=layer.prefix,
                expected="experts in nf4",
                found="8 bits",
                fix="Quantize to nf4, or publish the model in another method.",
            )
            continue
        for module in layer.modules:
            if stored_type(model.modules[module]) == "fp4":
                yield Fault(
                    message="vLLM reads the 4-bit experts of bitsandbytes as nf4 whatever their "
                    "state says: the model starts and answers nonsense.",
                    module=module,
                    expected="nf4",
                    found="fp4",
                    fix="Quantize with `bnb_4bit_quant_type: nf4`.",
                    outcome=Outcome.SILENT,
                )
