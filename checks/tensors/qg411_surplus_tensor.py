"""QG411 surplus-tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.difference import Kind
from quantgate.quantization.expected import Role
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG411", "surplus-tensor")
def check(model: Model) -> Iterator[Fault]:
    """A quantized module stores a tensor that vLLM has no parameter for.

    ## What it checks

    The tensor names of every module with a declared scheme against the parameters that vLLM creates
    for that scheme. Typical: `input_scale` under dynamic activations, `weight_g_idx`,
    `weight_scale_inv` where the method wants `weight_scale`, and the other way round.

    ## Why it matters

    Unlike a missing tensor, an unexpected one stops the load: `There is no module or parameter
    named ..`; fused layers answer `'QKVParallelLinear' object has no attribute 'data'`, experts
    `Layer .. has no parameter`, some models only `KeyError`.

    ## Example

    ```
    quantization_config: {"quant_method": "fp8", "activation_scheme": "dynamic"}
    model.layers.0.mlp.up_proj.input_scale  F32 []     # dynamic activations have none
    ```

    ## Fix

    Rename or remove the tensor, or declare the scheme that has it.

    ## Seen in

    - https://github.com/amd/Quark/issues/42
    - https://github.com/vllm-project/vllm/issues/54126

    ## Not checked

    Names that vLLM drops (`bias` and `g_idx` without a parameter, scales of the KV cache), modules
    that are declared dense (QG417), and the few models that skip surplus scales on their own.
    """
    lacking = {m: d.leaf for m, d in model.differing(Kind.MISSING) if d.role is Role.SCALE}
    for module, d in model.differing(Kind.SURPLUS):
        wanted = lacking.get(module, "") if "scale" in d.leaf else ""
        instead = f", it wants {wanted} instead" if wanted else ""
        yield Fault(
            message=f"vLLM creates no parameter {d.leaf} for the declared scheme{instead}. "
            "The load ends in `There is no module or parameter named ..` or, in a fused "
            "layer, `object has no attribute 'data'`.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=wanted or d.expected,
            found=d.found,
            fix=f"Rename {d.leaf} to {wanted}."
            if wanted
            else f"Remove {d.leaf} from the files, or declare the scheme that has it.",
            outcome=d.outcome,
        )
