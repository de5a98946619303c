"""QG603 unsupported-on-cpu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule
from quantgate.vllm.capability import cpu_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG603", "unsupported-on-cpu", per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """The target is a CPU, and vLLM has no CPU kernel for the declared scheme.

    ## What it checks

    For a target with `gpu=cpu`: NVFP4, MXFP4 and MXFP8, GPTQ and packed weights of other than 4
    bits, and weight-only FP8.

    ## Why it matters

    vLLM stops while it builds the layers: `Failed to find a kernel that can implement the NVFP4
    linear layer` (or MXFP4, MXFP8, WNA16).

    ## Example

    ```
    --target gpu=cpu
    quantization_config: {"quant_method": "gptq", "bits": 8, …}
    ```

    ## Fix

    Serve on a GPU, or publish a 4-bit symmetric or INT8 variant for CPUs.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader on its CPU platform.

    ## Not checked

    What depends on the CPU itself (AMX, AVX-512), and the experts' kernels.
    """
    if model.target.gpu != "cpu":
        return
    for module, scheme in model.schemes.items():
        error = cpu_error(scheme) if scheme is not None else ""
        if error:
            yield Fault(
                message=f"vLLM's CPU platform has no kernel for this scheme: {error}.",
                module=module,
                expected="a scheme with a CPU kernel",
                found=str(scheme),
                fix="Serve on a GPU, or publish a 4-bit or INT8 variant for CPUs.",
            )
