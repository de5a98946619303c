"""QG401 bits-mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault
from quantgate.patching import scheme_patch
from quantgate.quantization.difference import Kind
from quantgate.quantization.sizes import CONFIG, NEIGHBOURS
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG401", "bits-mismatch")
def check(model: Model) -> Iterator[Fault]:
    """The stored weights have another number of bits than the config declares.

    ## What it checks

    A packed weight alone cannot tell 4 bits of K from 8 bits of K/2, so the bits are taken from
    witnesses that do not depend on the declaration: `g_idx` has length K, zero points are packed
    along N with the same bits, scales have N columns, and config.json or the neighbouring tensors
    give K.

    ## Why it matters

    vLLM allocates after the config. The packed weight then has the wrong length and the load ends
    in a bare `AssertionError` or `start (0) + length (..) exceeds dimension size`; on a
    row-parallel layer (`o_proj`, `down_proj`) a weight that is too long is cut without a word.

    ## Example

    ```
    quantization_config: {"quant_method": "gptq", "bits": 8, "group_size": 128}
    model.layers.0.mlp.up_proj.qweight  I32 [32, 512]    # 4-bit: 256 * 4 / 32 = 32 rows
    model.layers.0.mlp.up_proj.g_idx    I32 [256]
    ```

    ## Fix

    Write the bits of the files into the config, or export again with the declared bits.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/46036

    ## Not checked

    Weights without zero points, g_idx or any witness of K: a single odd module of an unknown
    architecture can hide. Values are never read.
    """
    patch = scheme_patch(model, Kind.BITS, lambda d: {"bits": d.value})
    for module, d in model.differing(Kind.BITS):
        likely = d.witness == NEIGHBOURS
        by = f"the sizes in {CONFIG}" if d.witness == CONFIG else d.witness
        yield Fault(
            message=f"The config declares {d.expected}, but the tensors hold {d.found} "
            f"(settled by {by}): vLLM allocates for {d.expected}, and the packed weight "
            "does not fit.",
            module=module,
            expected=d.expected,
            found=d.found,
            fix=f"Declare {d.found} for these modules, or export them again with {d.expected}.",
            patch=patch,
            outcome=d.outcome,
            confidence=Confidence.LIKELY if likely else Confidence.CERTAIN,
        )
