"""QG606 scheme-not-in-release."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule
from quantgate.vllm.facts import releases
from quantgate.vllm.loading import Slicing, slicing_of
from quantgate.vllm.scheme_classes import has_scheme

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG606", "scheme-not-in-release", methods=["compressed-tensors"], per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """The target's vLLM release has no class for the declared compressed-tensors scheme.

    ## What it checks

    For every scheme in use, whether the release has any of the classes that can take it: MXFP4
    came between 0.13 and 0.16, MXFP8 between 0.19 and 0.23, packed integers with integer inputs
    between 0.23 and 0.27. Packed integers of 2, 3, 5, 6 or 7 bits load since 0.27, asymmetric ones
    since 0.32. Experts of asymmetric packed integers load since 0.23, blocks of FP8 since 0.11.

    ## Why it matters

    vLLM stops while it builds the layers: `No compressed-tensors compatible scheme was found`, or
    `Only symmetric quantization is supported for MoE`.

    ## Example

    ```
    "format": "mxfp4-pack-quantized"      # --target vllm=0.13.0
    ```

    ## Fix

    Serve with a release that has the scheme, or publish in another one.

    ## Seen in

    - https://github.com/vllm-project/compressed-tensors/pull/732 (packed integers of any width)
    - https://github.com/vllm-project/llm-compressor/issues/2628 (asymmetric experts)
    - The classes of ten vLLM releases (layers/quantization/compressed_tensors/schemes).

    ## Not checked

    The other classes of the routed experts.
    """
    release = model.target.release
    lacking = cache(lambda scheme, experts: not has_scheme(scheme, release, experts=experts))
    for module, scheme in model.schemes.items():
        experts = slicing_of(module) is Slicing.EXPERTS
        if scheme is None or not lacking(scheme, experts):
            continue
        first = next((r for r in releases() if has_scheme(scheme, r, experts=experts)), "")
        error = "Only symmetric quantization is supported for MoE"
        if not experts or scheme.symmetric:
            error = "No compressed-tensors compatible scheme was found"
        yield Fault(
            message=f"vLLM {release} has no class for this scheme: `{error}`.",
            module=module,
            expected=f"vLLM {first} or newer",
            found=str(scheme),
            fix=f"Serve with vLLM {first} or newer, or publish in another scheme.",
        )
