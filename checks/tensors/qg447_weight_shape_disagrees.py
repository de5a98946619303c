"""QG447 weight-shape-disagrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.scheme import Layout
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG447", "weight-shape-disagrees", severity=Severity.WARNING, outcome=Outcome.CONDITIONAL)
def check(model: Model) -> Iterator[Fault]:
    """The stored `weight_shape` of a packed weight is not the shape of what is packed.

    ## What it checks

    With `--read-scalars`: the two numbers in `weight_shape` of every pack-quantized module,
    against the rows of `weight_packed` and the values that its columns hold at the declared bits.

    ## Why it matters

    `weight_shape` is the only place where a packed weight states its own size. vLLM loads it and
    allocates after the config all the same, but compressed-tensors and transformers cut the
    unpacked weight to it: `RuntimeError: shape '[...]' is invalid for input of size`. A value that
    disagrees is also the trace of a tensor that was cut, merged or packed again after the export,
    or of wrong `num_bits`.

    ## Example

    ```
    model.layers.0.mlp.up_proj.weight_packed  I32 [512, 32]     # 512 x 256 values of 4 bits
    model.layers.0.mlp.up_proj.weight_shape   [512, 128]
    ```

    ## Fix

    Export the module again, or correct `num_bits` if that is what is wrong.

    ## Seen in

    - https://github.com/huggingface/transformers/pull/47315 (where the value is what is used)

    That vLLM does not use it was read in its source (0.33.0, compressed_tensors_wNa16.py).

    ## Not checked

    Anything without `--read-scalars`. Packed weights of more than two dimensions.
    """
    values = model.checkpoint.scalars or {}
    for module, scheme in model.schemes.items():
        stored = values.get(f"{module}.weight_shape", ())
        _, shape = model.modules[module].get("weight_packed", ("", ()))
        if scheme is None or scheme.layout is not Layout.PACKED or len(shape) != 2:
            continue
        if len(stored) != 2:
            continue
        rows, columns = shape
        # 3 bits are packed without a gap by some tools, and ten to a word by others.
        dense, words = -(-stored[1] * scheme.bits // 32), -(-stored[1] // (32 // scheme.bits))
        if stored[0] == rows and columns in {dense, words}:
            continue
        yield Fault(
            message="The stored `weight_shape` is not the shape of what is packed. vLLM allocates "
            "after the config and does not look at it, but compressed-tensors and transformers cut "
            "the weight to it, and one of the two is wrong.",
            module=module,
            tensor=f"{module}.weight_shape",
            expected=f"[{rows}, {columns * 32 // scheme.bits}] at {scheme.bits} bits",
            found=f"[{stored[0]:.0f}, {stored[1]:.0f}]",
            fix="Export the module again, or correct `num_bits`.",
        )
