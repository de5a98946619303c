"""Write tiny checkpoints with llm-compressor: python write_llmcompressor.py FOLDER.

Nothing of quantgate is imported, so that what is checked is the tool's own idea of a checkpoint.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modifiers.quantization import GPTQModifier, QuantizationModifier
from tiny import LENGTH, saved, texts, tokenizer

FP8 = {"num_bits": 8, "type": "float", "symmetric": True}
INT4 = {"num_bits": 4, "type": "int", "symmetric": True}


def by_scheme(scheme: str, **more: Any) -> QuantizationModifier:
    """Round every Linear but lm_head to a preset scheme."""
    return QuantizationModifier(targets="Linear", scheme=scheme, ignore=["lm_head"], **more)


def by_gptq(scheme: str) -> GPTQModifier:
    """Fit every Linear but lm_head with GPTQ."""
    return GPTQModifier(targets="Linear", scheme=scheme, ignore=["lm_head"])


RECIPES: dict[str, Any] = {
    "w4a16": by_scheme("W4A16"),
    "w4a16_gptq": by_gptq("W4A16"),
    "w8a8_gptq": by_gptq("W8A8"),
    "fp8_dynamic": by_scheme("FP8_DYNAMIC"),
    "fp8_block": by_scheme("FP8_BLOCK"),
    "fp8_kv": by_scheme("FP8", kv_cache_scheme={**FP8, "strategy": "tensor", "dynamic": False}),
    "nvfp4": by_scheme("NVFP4"),
    "nvfp4a16": by_scheme("NVFP4A16"),
    "mxfp4": by_scheme("MXFP4"),
    "mixed": QuantizationModifier(
        config_groups={
            "mlp": {
                "targets": [r"re:.*mlp.*_proj$"],
                "weights": {**INT4, "strategy": "group", "group_size": 128},
            },
            "attention": {
                "targets": [r"re:.*self_attn.*_proj$"],
                "weights": {**FP8, "strategy": "channel"},
                "input_activations": {**FP8, "strategy": "token", "dynamic": True},
            },
        },
        ignore=["lm_head"],
    ),
}


def write(name: str, folder: Path) -> None:
    """Run one recipe with random calibration data and save the result."""
    words = tokenizer()
    rows = [dict(words(text, truncation=True, max_length=LENGTH)) for text in texts()]
    with tempfile.TemporaryDirectory() as source:
        oneshot(
            model=saved(Path(source)),
            tokenizer=words,
            recipe=RECIPES[name],
            dataset=Dataset.from_list(rows),
            max_seq_length=LENGTH,
            num_calibration_samples=len(rows),
            output_dir=str(folder),
        )


if __name__ == "__main__":
    for name in RECIPES:
        write(name, Path(sys.argv[1]) / f"llmcompressor_{name}")
