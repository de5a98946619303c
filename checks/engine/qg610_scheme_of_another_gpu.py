"""QG610 scheme-of-another-gpu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule
from quantgate.vllm.capability import other_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG610", "scheme-of-another-gpu", methods=["compressed-tensors", "quark"], per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """The declared scheme has a kernel for one kind of hardware only, and the target is another.

    ## What it checks

    compressed-tensors with 4-bit integer weights and 8-bit inputs. With FP8 inputs vLLM takes them
    on sm_90 (Hopper) exactly: neither on older GPUs nor on newer ones. With INT8 inputs, stored one
    value per byte (`int-quantized`), releases before 0.23 have a kernel for Arm CPUs only. Quark's
    experts of the same kind (W4A8) run on AMD's GPUs only.

    ## Why it matters

    vLLM stops while it builds the layers: `No compressed-tensors compatible scheme was found`, or
    `Failed to find a kernel that can implement the WNA16 linear layer`, or `W4A8 FP8 MoE requires
    ROCm AITER fused MoE support.`

    ## Example

    ```
    --target gpu=sm100
    weights: {num_bits: 4, type: int, strategy: group, group_size: 128}
    input_activations: {num_bits: 8, type: float, strategy: token, dynamic: true}
    ```

    ## Fix

    Serve on the hardware that the finding names, or publish another scheme.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/35439 (B200)
    - https://github.com/vllm-project/llm-compressor/issues/2693 (INT8 inputs on an H100)
    - Observed with vLLM 0.32.0's own loader on simulated GPUs.

    ## Not checked

    INT8 inputs in 0.23, which has a kernel and for which errors are reported
    (https://github.com/vllm-project/vllm/issues/46036). The routed experts' kernels; ROCm and XPU.
    """
    for module, scheme in model.schemes.items():
        wanted = other_gpu(scheme, model.target) if scheme is not None else ""
        if wanted:
            yield Fault(
                message="vLLM has no kernel for 4-bit integers with 8-bit inputs on this target, "
                f"and stops while it builds the layers: they run on {wanted}.",
                module=module,
                expected=wanted,
                found=str(model.target),
                fix=f"Serve on {wanted}, or publish another scheme.",
            )
