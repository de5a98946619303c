"""QG425 kv-scale-shape."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from quantgate.findings import Fault
from quantgate.rules import rule
from quantgate.vllm.kv_scales import Fate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.model import Model


@rule("QG425", "kv-scale-shape", per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """A scale of the KV cache is not a scalar.

    ## What it checks

    That every scale of the KV cache that vLLM loads has one element, under all the names that the
    target's release knows (`k_scale`, `v_scale`, `q_scale`, `kv_scale`, `k_proj.k_scale`, for
    native FP8 and Quark `k_proj.output_scale`, …), unless the declaration has a `kv_cache_scheme`
    with the strategy `attn_head`.

    ## Why it matters

    vLLM keeps one scale per attention and stops while loading: `Attempted to load weight
    (torch.Size([2])) into parameter (torch.Size([1]))`, in other places `KV-cache scale expects a
    scalar weight`.

    ## Example

    ```
    model.layers.0.self_attn.k_scale    F32 [8]    # one per head
    ```

    ## Fix

    Export the scales per tensor, or leave them out: without them vLLM uses 1.0.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Scales that vLLM drops (QG442) or refuses (QG441).
    """
    if _per_head(model.declaration.raw if model.declaration else {}):
        return
    for scale in model.kv_scales:
        if scale.fate is Fate.LOADED and scale.is_scale and prod(scale.shape) != 1:
            yield Fault(
                message="vLLM keeps one KV-cache scale per attention, and this one has more "
                "elements: it stops while loading (Attempted to load weight … into parameter "
                "…).",
                module=scale.module,
                tensor=scale.tensor,
                expected="[] or [1]",
                found=str(list(scale.shape)),
                fix="Export KV-cache scales per tensor, or leave them out.",
            )


def _per_head(raw: Mapping[str, Any]) -> bool:
    scheme = raw.get("kv_cache_scheme")
    return isinstance(scheme, dict) and scheme.get("strategy") == "attn_head"
