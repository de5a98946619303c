"""QG410 missing-input-scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.patching import dynamic_inputs_patch
from quantgate.quantization.difference import Kind
from quantgate.quantization.expected import Role
from quantgate.quantization.modelopt import ModelOptDeclaration
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG410", "missing-input-scale", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """Static activations are declared, and a module has no input scale.

    ## What it checks

    `input_scale` (and `input_zero_point` for asymmetric inputs) of every module whose declared
    input quantization is static: FP8 with `activation_scheme: static`, compressed-tensors groups
    whose `input_activations` are not dynamic, and ModelOpt's FP8 and NVFP4, always static.

    ## Why it matters

    vLLM checks only unquantized models for completeness. In a quantized one the parameter keeps
    whatever the memory held, the server starts, and the model answers nonsense. In a fused layer
    (`qkv_proj`, `gate_up_proj`) one missing part spoils the others too.

    ## Example

    ```
    quantization_config: {"quant_method": "fp8", "activation_scheme": "static"}
    model.layers.0.mlp.up_proj.weight        F8_E4M3 [512, 256]
    model.layers.0.mlp.up_proj.weight_scale  F32 []              # no input_scale
    ```

    ## Fix

    If no module has one, the activations are dynamic: declare `activation_scheme: dynamic`, or
    `input_activations.dynamic: true`. If single modules lack it, export them again.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/54189

    ## Not checked

    NVFP4 of compressed-tensors, whose inputs have a global scale (QG409). The values of the scales.
    The gate or up projection of an FP8 expert whose other one has a scale: vLLM keeps one for both
    (layers/fused_moe/routed_experts.py, 0.32.0).
    """
    pairs = [
        (m, d)
        for m, d in model.differing(Kind.MISSING)
        if d.role is Role.INPUT_SCALE and not _shared_by_twin(model, m)
    ]
    none_stored = (
        bool(pairs)
        and not any("input_scale" in v for v in model.modules.values())
        and not isinstance(model.declaration, ModelOptDeclaration)
    )
    patch = dynamic_inputs_patch(model) if none_stored else ()
    for module, d in pairs:
        yield Fault(
            message="Static activations are declared, but the input scale is missing. vLLM "
            "starts without a word, quantizes the inputs with uninitialised memory, and the "
            "layer computes nonsense.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=d.expected,
            found=d.found,
            fix="No module has an input scale: declare the activations dynamic."
            if none_stored
            else "Export these modules again with their input scales.",
            patch=patch,
            outcome=d.outcome,
        )


_TWINS = {"gate_proj": "up_proj", "up_proj": "gate_proj", "w1": "w3", "w3": "w1"}


def _shared_by_twin(model: Model, module: str) -> bool:
    parent, _, leaf = module.rpartition(".")
    scheme = model.schemes.get(module)
    return (
        ".experts." in module
        and leaf in _TWINS
        and scheme is not None
        and scheme.bits == 8
        and "input_scale" in model.modules.get(f"{parent}.{_TWINS[leaf]}", {})
    )
