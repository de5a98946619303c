"""QG443 kv-scale-of-one-side."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.rules import rule
from quantgate.vllm.kv_scales import Fate, declared_kv_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG443", "kv-scale-of-one-side", per_target=True, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """An attention has a scale for its keys or its values, and none for the others.

    ## What it checks

    That an attention with a `k_scale` has a `v_scale`, and the reverse, under any name that vLLM
    takes.

    ## Why it matters

    For compressed-tensors (from 0.16 on) the other side is scaled by 1.0, also where the deprecated
    `kv_scale` is stored, which goes to the keys alone. For every other method vLLM takes a lone
    `k_scale` for the values too, whatever their range, and a lone `v_scale` ends in a bare
    `AssertionError` after loading. Both only with an FP8 cache, which the declaration may ask for
    (`kv_cache_scheme`, `kv_cache_quant_algo`), or `--kv-cache-dtype fp8`. Source:
    layers/quantization/kv_cache.py and compressed_tensors.py, 0.10.2 to 0.33.0.

    ## Example

    ```
    model.layers.0.self_attn.v_scale    F32 [1]    # and no k_scale
    ```

    ## Fix

    Export both, or neither.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/57108 (vLLM does not ask whether a
      quantized checkpoint is complete; the report is about lost scales)

    ## Not checked

    Values.
    """
    declaration = model.declaration
    if declaration is None:
        return
    declared = bool(declared_kv_cache(declaration))
    sides: dict[str, set[str]] = defaultdict(set)
    for scale in model.kv_scales:
        if scale.fate is Fate.LOADED and scale.is_scale:
            sides[scale.attention].add(scale.role)
    own = declaration.method == "compressed-tensors" and model.target.version >= (0, 16)
    for attention, roles in sides.items():
        both = {"kv"} if not own else {"k", "v"}
        if both <= roles or {"k", "v"} <= roles or not roles & {"k", "v", "kv"}:
            continue
        lone = next(r for r in ("k", "kv", "v") if r in roles)
        if own:
            consequence = "the other side of the cache is scaled by 1.0"
        elif lone == "k":
            consequence = "vLLM takes it for the values as well, whatever their range"
        else:
            consequence = "vLLM stops after loading with a bare `AssertionError`"
        if not declared:
            consequence += ", if it is served with --kv-cache-dtype fp8"
        stops = declared and lone == "v" and not own
        yield Fault(
            message=f"Of the scales of the KV cache only {lone}_scale is stored: {consequence}.",
            module=attention,
            expected="k_scale and v_scale",
            found=f"{lone}_scale alone",
            fix="Export both scales, or neither.",
            severity=Severity.ERROR if stops else Severity.WARNING,
            outcome=Outcome.FAILS if stops else Outcome.CONDITIONAL,
        )
