"""Write tiny checkpoints with torchao: python write_torchao.py FOLDER.

Nothing of quantgate is imported, so that what is checked is the tool's own idea of a checkpoint.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from tiny import saved
from torchao.quantization import (
    Float8WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    PerGroup,
)
from transformers import LlamaForCausalLM, TorchAoConfig

_GROUPS = PerGroup(32)
# What torchao quantizes without a GPU.
CONFIGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "int8": (Int8WeightOnlyConfig(), {}),
    "int8_skip": (
        Int8WeightOnlyConfig(),
        {"modules_to_not_convert": ["lm_head", "model.layers.0.mlp"]},
    ),
    "int8_dynamic": (Int8DynamicActivationInt8WeightConfig(), {}),
    "fp8": (Float8WeightOnlyConfig(), {}),
    "int4_g32": (IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=_GROUPS), {}),
    "int8_int4_g32": (
        Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=_GROUPS),
        {},
    ),
    # Transformers 5.19 quantizes what is named by its last name alone; vLLM leaves it dense.
    "refused_skip": (Int8WeightOnlyConfig(), {"modules_to_not_convert": ["lm_head", "down_proj"]}),
}


def write(name: str, folder: Path) -> None:
    """Quantize by one config and save the result."""
    config, more = CONFIGS[name]
    with tempfile.TemporaryDirectory() as source:
        model = LlamaForCausalLM.from_pretrained(
            saved(Path(source)), quantization_config=TorchAoConfig(config, **more), dtype="bfloat16"
        )
        model.save_pretrained(folder)


if __name__ == "__main__":
    for name in CONFIGS:
        write(name, Path(sys.argv[1]) / f"torchao_{name}")
