"""QG309 deprecated-method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.reading import DEPRECATED_METHODS
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG309", "deprecated-method")
def check(model: Model) -> Iterator[Fault]:
    """The method is deprecated, and vLLM refuses it unless it is asked to accept that.

    ## What it checks

    `quant_method` against the deprecated methods of vLLM 0.33.0: `fbgemm_fp8` and `fp_quant`.

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
    if declaration is None or declaration.method not in DEPRECATED_METHODS:
        return
    yield Fault(
        message="vLLM refuses this method as deprecated, unless it is started with "
        "`--allow-deprecated-quantization`.",
        tensor="quant_method",
        expected="a method that is not deprecated",
        found=declaration.method,
        fix="Quantize again as compressed-tensors FP8 with dynamic activations."
        if declaration.method == "fbgemm_fp8"
        else "Quantize again as compressed-tensors NVFP4 or MXFP4.",
    )
