"""QG311 transform-without-place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.transforms import ATTENTION
from quantgate.rules import rule
from quantgate.vllm.transforms import applied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG311", "transform-without-place", methods=["compressed-tensors"])
def check(model: Model) -> Iterator[Fault]:
    """A transform of the attention is declared for a Linear layer.

    ## What it checks

    Every entry of `transform_config` at `k_cache` or `q_attn`: its targets must cover no Linear
    layer.

    ## Why it matters

    vLLM looks for transforms at its Linear layers and has none at these locations: it stops with
    `Cannot apply k_cache transform to ..`. For an attention module it ignores such an entry.

    ## Example

    ```
    apply: [{"location": "k_cache", "targets": ["re:.*k_proj$"]}]
    ```

    ## Fix

    Target the attention modules (`re:.*self_attn$`), or write the location `output`.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader; the same in all releases since 0.10.2.

    ## Not checked

    That a rotation which vLLM ignores is undone by another one that it ignores too.
    """
    for module, transform in applied(model, ATTENTION):
        yield Fault(
            message=f"vLLM has no transform at {transform.location} for a Linear layer, and stops: "
            f"`Cannot apply {transform.location} transform to ..`.",
            module=module,
            expected="input, output, weight_input or weight_output",
            found=transform.location,
            fix="Target the attention modules, or write the location `output`.",
        )
