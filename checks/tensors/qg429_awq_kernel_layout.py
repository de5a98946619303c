"""QG429 awq-kernel-layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.difference import Kind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG429", "awq-kernel-layout", methods=("awq", "gptq", "auto-round", "inc"))
def check(model: Model) -> Iterator[Fault]:
    """The AWQ weights are packed for another kernel than GEMM.

    ## What it checks

    The shapes of `qweight`, `qzeros` and `scales`, whatever `version` says. AutoAWQ packs for the
    kernel it was told: GEMV has `qweight` int32 [N, K/8] with a row of `scales` and `qzeros` per
    output, GEMVFast (and newer exports of llm-awq) int16 [N/4, K] with `scaled_zeros`, Marlin int32
    [K/16, 2N] without `qzeros`. N is out_features, K is in_features.

    ## Why it matters

    vLLM allocates the layout of GEMM, `qweight` int32 [K, N/8], and never reads `version`. The
    load ends in a bare `AssertionError`, in `start (0) + length (..) exceeds dimension size`, or
    in `There is no module or parameter named '..scaled_zeros'`.

    ## Example

    ```
    quantization_config: {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}
    model.layers.0.self_attn.q_proj.qweight  I32 [4096, 512]     # N = K: GEMM's has this shape too
    model.layers.0.self_attn.q_proj.scales   F16 [4096, 32]      # GEMM's would be [32, 4096]
    ```

    ## Fix

    Export again with `version: gemm`. vLLM repacks it for its own Marlin kernel by itself.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/3392 (Marlin)
    - https://github.com/casper-hansen/AutoAWQ/issues/217 (GEMV)
    - Observed with vLLM 0.32.0's own loader: all three layouts fail.

    ## Not checked

    The order of the values inside a word, which no header shows.
    """
    version = model.declaration.raw.get("version") if model.declaration else None
    said = "" if version is None else " The declared `version` is not read."
    for module, d in model.differing(Kind.KERNEL):
        yield Fault(
            message=f"This is the layout of AWQ's {d.witness} kernel. vLLM reads the one of gemm "
            f"only, and the load ends in a bare `AssertionError` or at a tensor name that it does "
            f"not know.{said}",
            module=module,
            expected=d.expected,
            found=d.found,
            fix="Export again with `version: gemm`; vLLM repacks it for Marlin by itself.",
            outcome=d.outcome,
        )
