"""Write tiny checkpoints with NVIDIA ModelOpt: python write_modelopt.py FOLDER.

Nothing of quantgate is imported, so that what is checked is the tool's own idea of a checkpoint.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import modelopt.torch.quantization as mtq
import torch
from modelopt.torch.export import export_hf_checkpoint
from tiny import LENGTH, VOCAB, llama

CONFIGS: dict[str, dict[str, Any]] = {
    "fp8": mtq.FP8_DEFAULT_CFG,
    "fp8_kv": mtq.update_quant_cfg_with_kv_cache_quant(
        mtq.FP8_DEFAULT_CFG, mtq.FP8_KV_CFG["quant_cfg"]
    ),
    "fp8_channel": mtq.FP8_PER_CHANNEL_PER_TOKEN_CFG,
    "fp8_block": mtq.FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG,
    "nvfp4": mtq.NVFP4_DEFAULT_CFG,
    "nvfp4_mlp": mtq.NVFP4_MLP_ONLY_CFG,
    "nvfp4_w4a16": mtq.W4A16_NVFP4_CFG,
    "mxfp8": mtq.MXFP8_DEFAULT_CFG,
    # vLLM has no kernel for these and refuses them by their name.
    "refused_int4_awq": mtq.INT4_AWQ_CFG,
    "refused_w4a8_awq": mtq.W4A8_AWQ_BETA_CFG,
    "refused_int8_sq": mtq.INT8_SMOOTHQUANT_CFG,
    "refused_mxfp4": mtq.MXFP4_DEFAULT_CFG,
}


def calibrate(model: Any) -> None:
    """Run random tokens through the model."""
    generator = torch.Generator().manual_seed(0)
    model(torch.randint(3, VOCAB, (4, LENGTH), generator=generator))


def write(name: str, folder: Path) -> None:
    """Quantize by one of the tool's recipes and export the result."""
    model = llama()
    mtq.quantize(model, copy.deepcopy(CONFIGS[name]), calibrate)
    with torch.inference_mode():
        export_hf_checkpoint(model, export_dir=folder)


if __name__ == "__main__":
    for name in CONFIGS:
        write(name, Path(sys.argv[1]) / f"modelopt_{name}")
