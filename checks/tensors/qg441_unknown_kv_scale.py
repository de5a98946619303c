"""QG441 unknown-kv-scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault, Outcome, Severity
from quantgate.rules import rule
from quantgate.vllm.kv_scales import OBSERVED, Fate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG441", "unknown-kv-scale", per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """A scale of the KV cache has a name that vLLM does not know.

    ## What it checks

    Tensors of an attention that are scales of the KV cache by their name, against the names that
    the target's release takes for the declared method: `k_scale`, `v_scale`, `kv_scale`,
    `k_proj.k_scale`, `qkv_proj.k_scale`; `q_scale` and zero points from 0.16 on, `k_cache.scale`
    from 0.23 on; `k_proj.output_scale` only for native FP8 and Quark, and for compressed-tensors
    before 0.16. State of a quantizer (`k_bmm_quantizer._amax`) is never one of them.

    ## Why it matters

    vLLM stops while loading: `There is no module or parameter named …`, `'QKVParallelLinear' object
    has no attribute 'data'` or `KeyError`.

    A few classes pass over names that they lack. An error is reported for the thirteen
    architectures that were seen to stop, a warning for all others.

    ## Example

    ```
    model.layers.0.self_attn.k_cache_scale         F32 [1]    # vLLM: k_scale
    model.layers.0.self_attn.k_proj.output_scale   F32 [1]    # under compressed-tensors
    ```

    ## Fix

    Rename the tensors to `self_attn.k_scale` and `self_attn.v_scale`, or leave them out.

    ## Seen in

    - https://github.com/vllm-project/compressed-tensors/pull/133 (why the names moved)
    - Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Architectures that the release does not know; methods other than compressed-tensors, FP8,
    ModelOpt, Quark, GPTQ, AWQ and AutoRound.
    """
    seen = model.naming.architecture in OBSERVED
    if model.declaration is None and model.quantized_modules:
        return  # the lost declaration is the fault (QG302), and decides which names there are
    for scale in model.kv_scales:
        if scale.fate is Fate.REFUSED:
            yield Fault(
                message="vLLM has no parameter of this name for the declared method and "
                + ("stops" if seen else "most classes stop")
                + " while loading (`There is no module or parameter named …`, `object has no "
                "attribute 'data'` or `KeyError`).",
                module=scale.module,
                tensor=scale.tensor,
                expected="self_attn.k_scale and self_attn.v_scale, or nothing",
                found=scale.leaf,
                fix="Rename the scales of the KV cache, or leave them out.",
                confidence=Confidence.LIKELY,
                severity=None if seen else Severity.WARNING,
                outcome=None if seen else Outcome.CONDITIONAL,
            )
