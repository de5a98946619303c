"""QG436 torchao-metadata-mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.scheme import Layout
from quantgate.quantization.torchao_metadata import contradictions, entries_of
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG436", "torchao-metadata-mismatch", methods=["torchao"])
def check(model: Model) -> Iterator[Fault]:
    """The config describes another torchao tensor than the files hold.

    ## What it checks

    For every layer that the config quantizes, its class (`Int8Tensor`), the values that share a
    scale (`block_size`), the type of the values (`target_dtype`) and whether the inputs are
    quantized too: what `quant_type` leads to, against the entry in the file's metadata.

    ## Why it matters

    vLLM has torchao quantize an empty weight by the config and copies the stored one into it.
    torchao copies only between equals: `Not supported args for copy_ due to metadata mismatch`, or
    `'Int8Tensor' object has no attribute 'target_dtype'` between classes. Nothing is converted, and
    the load fails.

    ## Example

    ```
    quant_type: {"default": {"_type": "IntxWeightOnlyConfig", "_data": {.. "group_size": 64}}}
    model.layers.0.mlp.up_proj.weight: {"_type": "IntxUnpackedToInt8Tensor",
                                        "_data": {"block_size": [1, 32], ..}}
    ```

    ## Fix

    Write the config that quantized the model into `quant_type`, as torchao's `config_to_dict` gives
    it, or quantize again.

    ## Seen in

    - Observed with the loader of vLLM 0.32.0 and torchao 0.18.0.

    ## Not checked

    Scales per tensor, which depend on the fused layer's size; rounding modes, kernel preferences.
    """
    entries = entries_of(model.torchao_files)
    for module, scheme in model.schemes.items():
        entry = entries.get(f"{module}.weight")
        if scheme is None or scheme.layout is not Layout.TORCHAO or entry is None:
            continue
        qdata = model.modules[module].get("_weight_qdata")
        if qdata is None or not qdata[1]:
            continue  # QG435
        columns = model.sizes(module).k or qdata[1][-1]
        for what, expected, found in contradictions(entry, scheme, columns):
            yield Fault(
                message=f"The config leads to another {what} than the file's metadata gives. "
                "torchao copies only between equals, and the load fails: `Not supported args for "
                "copy_ due to metadata mismatch`.",
                module=module,
                expected=expected,
                found=found,
                fix="Write the config that quantized the model into `quant_type`, or quantize "
                "again.",
            )
