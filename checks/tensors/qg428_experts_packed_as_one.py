"""QG428 experts-packed-as-one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG428", "experts-packed-as-one", methods={"compressed-tensors"})
def check(model: Model) -> Iterator[Fault]:
    """All experts of a block lie in one packed tensor, which vLLM takes only one by one.

    ## What it checks

    Under compressed-tensors: packed tensors that hang on the experts as a whole
    (`experts.gate_up_proj_packed`, three dimensions) instead of on each expert
    (`experts.0.gate_proj.weight_packed`).

    ## Why it matters

    vLLM's loader for fused experts knows one tensor of dense experts, not a packed one with its
    scales: `The expanded size of the tensor … must match the existing size`, or an unknown name.

    ## Example

    ```
    model.layers.0.mlp.experts.gate_up_proj_packed    I32 [128, 1536, 256]
    ```

    ## Fix

    Export with the experts taken apart into Linear modules before quantizing.

    ## Seen in

    - https://github.com/vllm-project/llm-compressor/issues/2939

    ## Not checked

    Other methods: MXFP4 of gpt-oss is stored as one tensor and read as one.
    """
    for module, leaves in model.modules.items():
        if module.rpartition(".")[2] != "experts":
            continue
        for leaf, (dtype, shape) in leaves.items():
            if leaf.endswith("_packed") and len(shape) == 3:
                yield Fault(
                    message="All experts lie in one packed tensor: vLLM reads packed experts only "
                    "one by one, and stops while loading.",
                    module=module,
                    tensor=f"{module}.{leaf}",
                    expected="experts.0.gate_proj.weight_packed, …",
                    found=f"{leaf} {dtype} {list(shape)}",
                    fix="Export with the experts taken apart into Linear modules.",
                    confidence=Confidence.LIKELY,
                )
