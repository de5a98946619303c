"""Side files beside config.json that declare a quantization too, and where they contradict it.

Which of them other programs read: AutoGPTQ quantize_config.json, AutoAWQ quant_config.json,
TensorRT-LLM and ModelOpt hf_quant_config.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.checkpoint.model import ConfigFile
    from quantgate.quantization.declaration import Declaration

SIDE_FILES = (
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


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A key that the side file `file` gives another value than the block that vLLM uses.

    `path` is the JSON pointer of the key in the side file; the values are normalised.
    """

    file: str
    key: str
    path: str
    used: Any
    other: Any


def contradictions(
    declaration: Declaration, configs: Mapping[str, ConfigFile]
) -> Iterator[Contradiction]:
    """Every contradiction, by file and key; numbers and words only, no lists of modules."""
    used = _values(declaration.raw)
    for name in SIDE_FILES:
        side = configs.get(name)
        if side is None or name == declaration.file:
            continue
        for key, (path, value) in _values(side.mapping).items():
            if key in used and used[key][1] != value:
                yield Contradiction(name, key, path, used[key][1], value)


def _values(block: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """The compared keys that a block has, each with its pointer and its value."""
    nested = block.get("quantization")
    prefix = ""
    if isinstance(nested, dict) and "quant_algo" in nested:
        block, prefix = nested, "/quantization"
    values: dict[str, tuple[str, Any]] = {}
    for key, names in _KEYS.items():
        name = next((n for n in names if isinstance(block.get(n), int | str)), None)
        if name is None:
            continue
        value = block[name]
        if isinstance(value, str):
            value = value.lower() if key == "quant_method" else value.upper()
            value = _SAME_METHOD.get(value, value)
        values[key] = (f"{prefix}/{name}", value)
    return values
