"""QG606 scheme-not-in-release."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule
from quantgate.vllm.facts import facts, nearest, releases
from quantgate.vllm.loading import Slicing, slicing_of
from quantgate.vllm.scheme_classes import has_scheme

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model
    from quantgate.quantization.scheme import Scheme


@rule(
    "QG606",
    "scheme-not-in-release",
    methods=["compressed-tensors", "quark", "torchao", "auto-round", "inc"],
    per_target=True,
)
def check(model: Model) -> Iterator[Fault]:
    """The target's vLLM release has no class for the declared scheme, or no loader for its files.

    ## What it checks

    For every scheme in use, whether the release has any of the classes that can take it. Of
    compressed-tensors, MXFP4 came between 0.13 and 0.16, MXFP8 between 0.19 and 0.23, packed
    integers with integer inputs between 0.23 and 0.27; packed integers of 2, 3, 5, 6 or 7 bits load
    since 0.27, asymmetric ones since 0.32, experts of asymmetric packed integers since 0.23,
    blocks of FP8 since 0.11. Of Quark, NVFP4 came between 0.19 and 0.23, FP8 per block between 0.27
    and 0.30, INT4 with 0.32. The safetensors files of torchao are read from 0.13 on. AutoRound's
    widths other than 4 and 8 bits have kernels from 0.30 on, 2 and 3 bits also before 0.23.

    ## Why it matters

    vLLM stops while it builds the layers: `No compressed-tensors compatible scheme was found`, `No
    quark compatible scheme was found`, or `Only symmetric quantization is supported for MoE`. For
    torchao it stops at the first part of a tensor.

    ## Example

    ```
    "format": "mxfp4-pack-quantized"      # --target vllm=0.13.0
    ```

    ## Fix

    Serve with a release that has the scheme, or publish in another one.

    ## Seen in

    - https://github.com/vllm-project/compressed-tensors/pull/732 (packed integers of any width)
    - https://github.com/vllm-project/llm-compressor/issues/2628 (asymmetric experts)
    - The classes of ten vLLM releases (layers/quantization/compressed_tensors/schemes and
      quark/schemes).

    ## Not checked

    The other classes of the routed experts.
    """
    release = model.target.release
    method = model.declaration.method if model.declaration else ""
    later = [r for r in releases() if facts(r).version > nearest(release).version]
    lacking = cache(
        lambda scheme, experts: not has_scheme(scheme, release, method, experts=experts)
    )
    for module, scheme in model.schemes.items():
        experts = slicing_of(module) is Slicing.EXPERTS
        if scheme is None or not lacking(scheme, experts):
            continue
        # The nearest newer release that has it: a few schemes were gone for a while.
        first = next((r for r in later if has_scheme(scheme, r, method, experts=experts)), "")
        yield Fault(
            message=_message(scheme, release, method, experts=experts),
            module=module,
            expected=f"vLLM {first} or newer",
            found=str(scheme),
            fix=f"Serve with vLLM {first} or newer, or publish in another scheme.",
        )


def _message(scheme: Scheme, release: str, method: str, *, experts: bool) -> str:
    """What the release does with the scheme."""
    if method == "torchao":
        return (
            f"vLLM {release} cannot put these tensors together again: `There is no module or "
            "parameter named .._weight_qdata`."
        )
    if method in {"auto-round", "inc"}:
        return (
            f"vLLM {release} has no kernel for this width: `INC quantization with "
            f"bits={scheme.bits}, sym={scheme.symmetric} is not supported`."
        )
    error = f"No {method} compatible scheme was found"
    if experts and not scheme.symmetric and method == "compressed-tensors":
        error = "Only symmetric quantization is supported for MoE"
    return f"vLLM {release} has no class for this scheme: `{error}`."
