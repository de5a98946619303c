"""Write tiny checkpoints with GPTQModel: python write_gptqmodel.py FOLDER.

Nothing of quantgate is imported, so that what is checked is the tool's own idea of a checkpoint.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

# The loader wants two workers; on two cores the library takes one.
os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")

from gptqmodel import GPTQModel, QuantizeConfig
from tiny import saved, texts, tokenizer

CONFIGS: dict[str, dict[str, Any]] = {
    "w4": {},
    "w4_v2": {"format": "gptq_v2"},
    "w4_channel": {"group_size": -1, "act_group_aware": False},
    "w8_g32": {"bits": 8, "group_size": 32},
    "w4_lm_head": {"lm_head": True},
    "w4_dynamic": {"dynamic": {r"-:.*\.0\.mlp\.": {}, r"+:.*\.1\.mlp\.": {"bits": 8}}},
    "awq": {"quant_method": "awq", "format": "gemm"},
    "awq_zero_point": {"quant_method": "awq", "format": "gemm", "sym": False},
    # vLLM 0.33 has no kernel for these.
    "refused_w4_asym": {"sym": False},
    "refused_w4_act_order": {"desc_act": True},
}


def write(name: str, folder: Path) -> None:
    """Quantize by one config and save the result."""
    with tempfile.TemporaryDirectory() as source:
        config = {"bits": 4, "group_size": 128, **CONFIGS[name]}
        model = GPTQModel.load(
            saved(Path(source)), QuantizeConfig(device="cpu", offload_to_disk=False, **config)
        )
        model.quantize(texts(), batch_size=1, tokenizer=tokenizer())
        model.save(str(folder))


if __name__ == "__main__":
    for name in CONFIGS:
        write(name, Path(sys.argv[1]) / f"gptqmodel_{name}")
