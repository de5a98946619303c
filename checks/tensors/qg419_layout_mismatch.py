"""QG419 layout-mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.patching import layout_patch
from quantgate.quantization.difference import Kind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG419", "layout-mismatch")
def check(model: Model) -> Iterator[Fault]:
    """The tensors are those of another format than the declared one.

    ## What it checks

    Names and types of every quantized module: `qweight` (GPTQ, AWQ), `weight_packed`
    (pack-quantized, NVFP4, MXFP4), `weight` in int8 or float8, against the format that the
    declaration selects.

    ## Why it matters

    The names differ, so the load stops at the first one: `There is no module or parameter named '..
    .weight_packed'`. Between int8 and float8 the names are equal, and vLLM casts the values without
    a word.

    ## Example

    ```
    quantization_config: {"quant_method": "compressed-tensors", "format": "pack-quantized", ..}
    model.layers.0.mlp.up_proj.qweight  I32 [32, 512]     # this is GPTQ
    ```

    ## Fix

    Declare the method and format that wrote the files, with all keys of that method.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/46311

    ## Not checked

    GPTQ against AWQ (QG404). NVFP4 against MXFP4, which have equal names (QG412, QG414).
    """
    patch = layout_patch(model)
    for module, d in model.differing(Kind.LAYOUT):
        effect = (
            "vLLM casts the values without a word, and the model answers nonsense"
            if d.outcome is Outcome.SILENT
            else "the load ends in `There is no module or parameter named ..`"
        )
        yield Fault(
            message=f"{d.expected} tensors are declared, {d.found} ones are stored: {effect}.",
            module=module,
            expected=d.expected,
            found=d.found,
            fix="Declare the method and format that wrote the files, with all keys of that method.",
            patch=patch,
            outcome=d.outcome,
        )
