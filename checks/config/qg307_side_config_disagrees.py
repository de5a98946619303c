"""QG307 side-config-disagrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.findings import Fault, Outcome, Severity
from quantgate.quantization.declaration import shown
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.model import Model

_SIDES = (
    "quantize_config.json",
    "quant_config.json",
    "quantization_config.json",
    "hf_quant_config.json",
)
# What is compared, and under which names the tools write it.
_KEYS = {
    "bits": ("bits", "w_bit"),
    "group_size": ("group_size", "q_group_size"),
    "desc_act": ("desc_act",),
    "sym": ("sym",),
    "zero_point": ("zero_point",),
    "quant_algo": ("quant_algo",),
    "quant_method": ("quant_method",),
}
_SAME_METHOD = {
    "auto_gptq": "gptq",
    "gptq_marlin": "gptq",
    "auto_awq": "awq",
    "awq_marlin": "awq",
    "inc": "auto-round",
    "compressed_tensors": "compressed-tensors",
}


@rule("QG307", "side-config-disagrees", severity=Severity.WARNING, outcome=Outcome.COSMETIC)
def check(model: Model) -> Iterator[Fault]:
    """A side file contradicts the quantization block that vLLM uses.

    ## What it checks

    `bits`, `group_size`, `desc_act`, `sym`, `zero_point`, `quant_algo` and `quant_method` in
    quantize_config.json, quant_config.json, quantization_config.json and hf_quant_config.json
    against the block that vLLM takes. Keys that only one of them has are not compared.

    ## Why it matters

    vLLM ignores the side file as soon as config.json has a block, so the model loads there.
    Other programs (AutoGPTQ, AutoAWQ, TensorRT-LLM, SGLang) read the side file first and load
    something else.

    ## Example

    ```
    config.json           quantization_config: {"quant_method": "gptq", "bits": 4, …}
    quantize_config.json  {"bits": 8, …}
    ```

    ## Fix

    Write the values of config.json into the side file, or delete it.

    ## Seen in

    - https://github.com/vllm-project/vllm/pull/25706 (both files, and no contradiction)

    ## Not checked

    Lists of modules: the tools write them under different names and in different forms.
    """
    declaration = model.declaration
    if declaration is None:
        return
    used = _values(declaration.raw)
    for name in _SIDES:
        side = model.checkpoint.configs.get(name)
        if side is None or name == declaration.file:
            continue
        nested = side.mapping.get("quantization")
        other = _values(nested if isinstance(nested, dict) else side.mapping)
        for key in used.keys() & other.keys():
            if used[key] != other[key]:
                yield Fault(
                    message=f"{name} contradicts the block that vLLM uses in `{key}`. vLLM never "
                    "looks at it beside a block in config.json; other programs do.",
                    tensor=name,
                    expected=f"{key} {shown(used[key])}",
                    found=f"{key} {shown(other[key])}",
                    fix=f"Correct or delete {name}.",
                )


def _values(block: Mapping[str, Any]) -> dict[str, Any]:
    """The compared values that a block has; numbers and words only."""
    nested = block.get("quantization")
    if isinstance(nested, dict) and "quant_algo" in nested:
        block = nested
    values: dict[str, Any] = {}
    for key, names in _KEYS.items():
        value = next((block[n] for n in names if isinstance(block.get(n), int | str)), None)
        if isinstance(value, str):
            value = value.lower() if key == "quant_method" else value.upper()
            value = _SAME_METHOD.get(value, value)
        if value is not None:
            values[key] = value
    return values
