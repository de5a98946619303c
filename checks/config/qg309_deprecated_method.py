"""QG309 deprecated-method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule
from quantgate.vllm.facts import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

_INSTEAD = {
    "fbgemm_fp8": "Quantize again as compressed-tensors FP8 with dynamic activations.",
    "fp_quant": "Quantize again as compressed-tensors NVFP4 or MXFP4.",
}


@rule("QG309", "deprecated-method", per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """The method is deprecated, and vLLM refuses it unless it is asked to accept that.

    ## What it checks

    `quant_method` against the deprecated methods of the target's release: `fbgemm_fp8` and
    `fp_quant` from 0.16 on, and a few more that later releases no longer have.

    ## Why it matters

    vLLM stops at the config: `The quantization method %s is deprecated and will be removed in
    future versions of vLLM. To bypass, set --allow-deprecated-quantization`. The next release may
    not have the method at all.

    ## Example

    ```
    quantization_config: {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}
    ```

    ## Fix

    Quantize again: FP8 per channel with dynamic activations in compressed-tensors is the same
    arithmetic. Or serve it with `--allow-deprecated-quantization`.

    ## Seen in

    Observed with the loader of vLLM 0.32.0; Meta's Llama 3.1 405B FP8 is such a model.

    ## Not checked

    The tensors of these methods.
    """
    declaration = model.declaration
    known = nearest(model.target.release)
    if declaration is None or declaration.method not in known.deprecated:
        return
    yield Fault(
        message="vLLM refuses this method as deprecated, unless it is started with "
        "`--allow-deprecated-quantization`.",
        tensor="quant_method",
        expected="a method that is not deprecated",
        found=declaration.method,
        fix=_INSTEAD.get(declaration.method, "Quantize again as compressed-tensors."),
    )
