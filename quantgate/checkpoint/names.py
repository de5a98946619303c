"""What the names of files say, without looking at the files."""

from __future__ import annotations

import re
from typing import Final

_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:")
_SEPARATOR = re.compile(r"[/\\]")

FOREIGN: Final = {
    ".gguf": "GGUF",
    ".ggml": "GGML",
    ".npz": "MLX (npz)",
    ".onnx": "ONNX",
    ".tflite": "TFLite",
    ".h5": "Keras",
    ".msgpack": "Flax",
    ".engine": "TensorRT",
    ".exl2": "EXL2",
    ".nemo": "NeMo",
    ".pth": "PyTorch (.pth)",
}
"""Endings of weight files that vLLM does not look for in a folder."""

_NO_MODEL = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")


def leads_out(name: str) -> bool:
    """Whether a file name of an index leads out of the model folder."""
    return bool(_ABSOLUTE.match(name)) or ".." in _SEPARATOR.split(name)


def is_pickle(name: str) -> bool:
    """Whether vLLM would load this file where there are no safetensors files.

    vLLM 0.33.0, model_loader/default_loader.py (patterns) and weight_utils.py
    (filter_files_not_needed_for_inference).
    """
    return name.endswith((".bin", ".pt")) and not name.endswith(_NO_MODEL)


def foreign_format(name: str) -> str:
    """The format of a weight file that vLLM does not look for, empty for any other file."""
    return next((label for end, label in FOREIGN.items() if name.lower().endswith(end)), "")
