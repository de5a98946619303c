"""QG404 packed-wrong-axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.patching import cured
from quantgate.quantization.difference import Kind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG404", "packed-wrong-axis")
def check(model: Model) -> Iterator[Fault]:
    """The weights are packed along the other axis than the declared method's.

    ## What it checks

    GPTQ packs eight 4-bit values along the input axis, `qweight` [K/8, N]; AWQ along the output
    axis, [K, N/8]. Both have equal names and types. The number of columns of `scales`, which is N
    in both, tells them apart.

    ## Why it matters

    Each method's kernels read their own order, and the shapes differ, so the load ends in a bare
    `AssertionError` or `start (0) + length (..) exceeds dimension size`.

    ## Example

    ```
    quantization_config: {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true}
    model.layers.0.self_attn.q_proj.qweight  I32 [32, 128]    # [K/8, N]: this is GPTQ
    model.layers.0.self_attn.q_proj.scales   F16 [2, 128]
    ```

    ## Fix

    Declare the method that wrote the file, with its own keys (GPTQ: `desc_act`, `sym`; AWQ:
    `zero_point`), or convert the weights.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/3392

    ## Not checked

    The order of the values inside a word, which AWQ interleaves; AutoAWQ's other layouts (QG429).
    Square layers with K = N whose weight lies on its side look as if packed along the other axis.
    """
    declaration = model.declaration
    if declaration is None or Kind.AXIS not in model.differences:
        return
    other = "gptq" if declaration.method == "awq" else "awq"
    patch = cured(model, declaration.patch("quant_method", other), Kind.AXIS)
    for module, d in model.differing(Kind.AXIS):
        axis = d.found.partition("packed ")[2]
        yield Fault(
            message=f"The declared method wants qweight {d.expected}, but the scales show "
            f"that these words are packed {axis}, as {other} does: the load ends in a bare "
            "`AssertionError` or `start (0) + length (..) exceeds dimension size`.",
            module=module,
            expected=d.expected,
            found=d.found,
            fix=f"Declare `quant_method: {other}` with the keys of that method, or convert "
            "the weights to the declared one.",
            patch=patch,
            outcome=d.outcome,
        )
