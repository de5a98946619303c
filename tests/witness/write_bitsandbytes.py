"""Write tiny checkpoints with bitsandbytes: python write_bitsandbytes.py FOLDER.

Nothing of quantgate is imported, so that what is checked is the tool's own idea of a checkpoint.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from tiny import saved
from transformers import BitsAndBytesConfig, LlamaForCausalLM

_NF4: dict[str, Any] = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
CONFIGS: dict[str, dict[str, Any]] = {
    "nf4": {**_NF4, "bnb_4bit_compute_dtype": torch.bfloat16},
    "nf4_double": {**_NF4, "bnb_4bit_use_double_quant": True},
    "nf4_skip": {**_NF4, "llm_int8_skip_modules": ["lm_head", "down_proj"]},
    "fp4": {"load_in_4bit": True},
    "int8": {"load_in_8bit": True},
    # vLLM takes bytes only.
    "refused_bf16_storage": {**_NF4, "bnb_4bit_quant_storage": torch.bfloat16},
}


def write(name: str, folder: Path) -> None:
    """Quantize by one config and save the result."""
    with tempfile.TemporaryDirectory() as source:
        model = LlamaForCausalLM.from_pretrained(
            saved(Path(source)),
            quantization_config=BitsAndBytesConfig(**CONFIGS[name]),
            dtype="bfloat16",
            device_map="cpu",
        )
        model.save_pretrained(folder)


if __name__ == "__main__":
    for name in CONFIGS:
        write(name, Path(sys.argv[1]) / f"bitsandbytes_{name}")
