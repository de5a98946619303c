"""QG444 kv-cache-without-scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.rules import rule
from quantgate.vllm.kv_scales import Fate, declared_kv_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule(
    "QG444",
    "kv-cache-without-scales",
    severity=Severity.INFO,
    outcome=Outcome.CONDITIONAL,
    per_target=True,
)
def check(model: Model) -> Iterator[Fault]:
    """A quantized KV cache is declared and no scales of it are stored, or the reverse.

    ## What it checks

    `kv_cache_scheme` (compressed-tensors), `kv_cache_quant_algo` (ModelOpt) and
    `export.kv_cache_group` (Quark) against the scales of the KV cache that vLLM loads. For
    compressed-tensors and ModelOpt also the reverse: scales without a declaration.

    ## Why it matters

    Without scales vLLM takes 1.0 and warns (`Using KV cache scaling factor 1.0 for fp8_e4m3`): the
    model works, large keys and values are clipped. Scales without a declaration do nothing unless
    it is served with `--kv-cache-dtype fp8`.

    ## Example

    ```
    "kv_cache_scheme": {"num_bits": 8, "type": "float", …}
    model.layers.0.self_attn.q_proj.weight …           # and no k_scale anywhere
    ```

    ## Fix

    Calibrate the cache when exporting, or take the key out of the declaration.

    ## Seen in

    - https://github.com/vllm-project/vllm/pull/6761 (an FP8 cache without scales)
    - Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Schemes whose scales are computed while serving.
    """
    declaration, decoder = model.declaration, model.decoder
    if declaration is None or decoder is None or not declaration.modelled:
        return
    key = declared_kv_cache(declaration)
    loaded = [s for s in model.kv_scales if s.fate is Fate.LOADED and s.role in {"k", "v", "kv"}]
    where = declaration.path.strip("/").replace("/", ".") or declaration.file
    if key and not any(s.role in {"k", "v", "kv"} for s in model.kv_scales):
        yield Fault(
            message="The declaration asks for a quantized KV cache and no scale of it is stored: "
            "vLLM scales by 1.0 and warns, and large keys and values are clipped.",
            tensor=f"{where}.{key}",
            expected="k_scale and v_scale in every attention",
            found="none",
            fix="Calibrate the KV cache when exporting, or take the key out.",
        )
    elif loaded and not key and declaration.method in {"compressed-tensors", "modelopt"}:
        yield Fault(
            message="Scales of the KV cache are stored and the declaration does not ask for a "
            "quantized cache: vLLM loads them and does not use them, unless it is served with "
            "--kv-cache-dtype fp8.",
            tensor=where,
            expected="kv_cache_scheme",
            found=f"{len(loaded)} scales",
            fix="Declare the scheme of the KV cache, or leave its scales out.",
        )
