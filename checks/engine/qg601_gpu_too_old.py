"""QG601 gpu-too-old."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule
from quantgate.vllm.capability import minimum_capability, other_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG601", "gpu-too-old", per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """The target's GPU is older than vLLM's kernels for the declared scheme.

    ## What it checks

    The compute capability of the target's `gpu` against what its vLLM release asks for: for the
    method, and for every scheme that the declaration uses. Without a GPU in the target nothing is
    said here; the report names the minimum among its facts.

    ## Why it matters

    vLLM refuses while it reads the config or builds the layers: `The quantization method … is not
    supported for the current GPU. Minimum capability: 75`, or `Quantization scheme is not supported
    for the current GPU`.

    ## Example

    ```
    --target gpu=sm70
    quantization_config: {"quant_method": "gptq", "bits": 4, …}    # needs sm_75 or newer
    ```

    ## Fix

    Serve on a newer GPU, or publish in a scheme that the old one can run.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader on simulated GPUs.

    ## Not checked

    Schemes that one generation of GPUs alone runs (QG610). ROCm and XPU, and what a kernel needs
    beyond the capability, such as memory. FP8 on a GPU older than sm_89 runs weight-only, which is
    slower but right.
    """
    capability = model.target.capability
    if capability is None:
        return
    method = model.declaration.method if model.declaration else ""
    minimum_of = cache(lambda s: minimum_capability(s, method, model.target.release))
    for module, scheme in model.schemes.items():
        if scheme is None or other_gpu(scheme, model.target):
            continue
        minimum = minimum_of(scheme)
        if capability < minimum:
            yield Fault(
                message=f"vLLM has no kernel for these layers on sm_{capability}: the scheme "
                f"needs sm_{minimum} or newer, and vLLM refuses to start.",
                module=module,
                expected=f"sm_{minimum} or newer",
                found=f"sm_{capability}",
                fix=f"Serve on sm_{minimum} or newer, or publish another scheme.",
            )
