"""QG415 symmetry-mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.patching import scheme_patch
from quantgate.quantization.difference import Kind
from quantgate.quantization.symmetry import mistaken_schemes
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG415", "symmetry-mismatch")
def check(model: Model) -> Iterator[Fault]:
    """The config declares symmetric weights and the files hold zero points, or the reverse.

    ## What it checks

    `weight_zero_point` of compressed-tensors modules against `symmetric`. If only some modules of a
    scheme lack it, a tensor was lost (QG407).

    ## Why it matters

    Declared symmetric, stored with zero points: the load fails on the unexpected name (`There is no
    module or parameter named`, `KeyError: .. weight_zero_point`). Declared asymmetric, stored
    without: vLLM starts and subtracts uninitialised memory.

    ## Example

    ```
    config_groups.group_0.weights: {"num_bits": 4, "symmetric": true, "strategy": "group"}
    model.layers.0.mlp.up_proj.weight_zero_point  I32 [64, 2]
    ```

    ## Fix

    Declare `symmetric` as the files are.

    ## Seen in

    - https://github.com/vllm-project/llm-compressor/issues/2255

    ## Not checked

    GPTQ and AWQ, whose files hold zero points either way.
    """
    mistaken = mistaken_schemes(model)
    patch = scheme_patch(model, Kind.SYMMETRY, lambda d: {"symmetric": d.found == "absent"})
    for module, d in model.differing(Kind.SYMMETRY):
        lacking = d.found == "absent"
        if lacking and model.schemes[module] not in mistaken:
            continue
        declared, stored = ("false", "without") if lacking else ("true", "with")
        effect = (
            "vLLM starts and subtracts uninitialised memory"
            if lacking
            else "the load ends in `There is no module or parameter named .. weight_zero_point`"
        )
        yield Fault(
            message=f"The config declares `symmetric: {declared}`, but the weights are stored "
            f"{stored} zero points: {effect}.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=d.expected,
            found=d.found,
            fix=f"Declare `symmetric: {str(lacking).lower()}` for these modules.",
            patch=patch,
            outcome=d.outcome,
        )
