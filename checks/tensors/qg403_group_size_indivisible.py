"""QG403 group-size-indivisible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.difference import Kind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG403", "group-size-indivisible")
def check(model: Model) -> Iterator[Fault]:
    """The input size of a layer is not a multiple of the declared group size.

    ## What it checks

    K modulo `group_size` of every module with group scales, for tensor parallel size 1. K comes
    from the tensors or, where those leave it open, from config.json or the neighbours.

    ## Why it matters

    No kernel takes a last group that is shorter than the others, and vLLM refuses the layer while
    it builds the model: `Weight input_size_per_partition = 256 is not divisible by group_size =
    96`, or `Marlin does not support group_size = 96`.

    ## Example

    ```
    quantization_config: {"quant_method": "gptq", "bits": 4, "group_size": 96}
    model.layers.0.self_attn.q_proj.g_idx  I32 [256]    # 256 / 96 leaves a rest
    ```

    ## Fix

    Quantize again with a group size that divides every input size (32, 64 or 128), or leave the
    layers that it does not divide unquantized.

    ## Seen in

    Observed with the loader of vLLM 0.32.0.

    ## Not checked

    Tensor-parallel sizes above 1, which divide K further (QG602).
    """
    for module, d in model.differing(Kind.GROUP_DIVIDES):
        yield Fault(
            message=f"The declared group size {d.found} does not divide the input size, and "
            "vLLM refuses the layer: `Weight input_size_per_partition = .. is not divisible "
            f"by group_size = {d.found}` or `Marlin does not support group_size = {d.found}`.",
            module=module,
            expected=d.expected,
            found=f"group_size {d.found}",
            fix="Quantize again with a group size that divides K, or leave these layers "
            "unquantized.",
        )
