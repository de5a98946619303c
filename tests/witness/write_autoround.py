"""Write tiny checkpoints with AutoRound: python write_autoround.py FOLDER.

Nothing of quantgate is imported, so that what is checked is the tool's own idea of a checkpoint.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from auto_round import AutoRound
from tiny import LENGTH, llama, texts, tokenizer

ASYMMETRIC = {"bits": 4, "group_size": 128, "sym": False}
MIXTURE = {
    "model.layers.0.mlp.down_proj": {"bits": 8},
    "model.layers.1.self_attn.o_proj": {"bits": 16},
}
# Name → (format of the export, arguments of AutoRound).
EXPORTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gptq_w4": ("auto_gptq", {"scheme": "W4A16"}),
    "gptq_w8": ("auto_gptq", {"scheme": "W8A16"}),
    "awq": ("auto_awq", ASYMMETRIC),
    "own_w4": ("auto_round", {"scheme": "W4A16"}),
    "own_w8": ("auto_round", {"scheme": "W8A16"}),
    "own_awq": ("auto_round:auto_awq", ASYMMETRIC),
    "own_mixed": ("auto_round", {"scheme": "W4A16", "layer_config": MIXTURE}),
    "ct_fp8": ("llm_compressor", {"scheme": "FP8_STATIC"}),
    "ct_w8a8": ("llm_compressor", {"scheme": "INT8_W8A8"}),
    "ct_nvfp4": ("llm_compressor", {"scheme": "NVFP4"}),
    "ct_mxfp4": ("llm_compressor", {"scheme": "MXFP4"}),
}


def write(name: str, folder: Path) -> None:
    """Quantize by rounding and export in one format; the tool adds a folder of its own."""
    form, arguments = EXPORTS[name]
    words = tokenizer()
    data = [words(t, truncation=True, max_length=LENGTH, return_tensors="pt") for t in texts()]
    with tempfile.TemporaryDirectory() as scratch:
        AutoRound(
            llama(),
            words,
            iters=0,
            disable_opt_rtn=True,
            nsamples=4,
            seqlen=LENGTH,
            dataset=data,
            device_map="cpu",
            **arguments,
        ).quantize_and_save(scratch, format=form)
        (written,) = Path(scratch).glob("**/config.json")
        written.parent.rename(folder)


if __name__ == "__main__":
    for name in EXPORTS:
        write(name, Path(sys.argv[1]) / f"autoround_{name}")
