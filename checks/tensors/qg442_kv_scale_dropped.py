"""QG442 kv-scale-dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.rules import rule
from quantgate.vllm.kv_scales import Fate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule(
    "QG442",
    "kv-scale-dropped",
    severity=Severity.INFO,
    outcome=Outcome.CONDITIONAL,
    per_target=True,
)
def check(model: Model) -> Iterator[Fault]:
    """A scale of the KV cache is stored and vLLM does not use it.

    ## What it checks

    Scales whose name vLLM knows, where it has no place for them: under GPTQ, AWQ and AutoRound,
    whose attentions have none, and for latent attention (DeepSeek), whose names the loader does not
    reach.

    ## Why it matters

    vLLM drops them without a word. Only with `--kv-cache-dtype fp8` does it matter: the cache is
    then scaled by 1.0 instead of the calibrated value.

    ## Example

    ```
    quantization_config: {"quant_method": "gptq", …}
    model.layers.0.self_attn.k_scale    F32 [1]
    ```

    ## Fix

    Nothing, unless you serve with an FP8 cache: then use a method that has scales for it.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/54623 (calibrated scales that did nothing)
    - Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Whether you serve with an FP8 cache; single classes that drop the scales in a few releases.
    """
    for scale in model.kv_scales:
        if scale.fate is Fate.DROPPED and scale.is_scale:
            yield Fault(
                message="vLLM has no place for this scale and drops it without a word; with "
                "--kv-cache-dtype fp8 the cache is scaled by 1.0 instead.",
                module=scale.module,
                tensor=scale.tensor,
                expected="no scale of the KV cache",
                found=scale.leaf,
                fix="Serve without an FP8 cache, or export with a method that has scales for it.",
            )
