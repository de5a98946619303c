"""A model of vLLM's on `meta` tensors, under the simulated GPU of the dry load."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from quantgate.vllm.dry_load.child import adapters
from quantgate.vllm.dry_load.child.parallel import Group
from quantgate.vllm.dry_load.child.platforms import simulate

if TYPE_CHECKING:
    from pathlib import Path

GPU = "sm90"


@cache
def _group() -> Group:
    simulate(GPU, 1)
    adapters.prepare(gpu=True)
    return Group()


def build_model(folder: Path) -> Any:
    """The model that vLLM builds for the config.json in this folder; raises what vLLM raises."""
    group = _group()
    import torch  # noqa: PLC0415  the platform has to be in place first
    from vllm.config import set_current_vllm_config  # noqa: PLC0415
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415

    from quantgate.vllm.dry_load.child.tracking import CudaToMeta  # noqa: PLC0415

    config = EngineArgs(
        model=str(folder), skip_tokenizer_init=True, enforce_eager=True, max_model_len=64
    ).create_engine_config()
    config.device_config.device = torch.device("meta")
    with set_current_vllm_config(config):
        group.become(0, 1)
        dtype = adapters.default_dtype(config.model_config.dtype)
        with dtype, CudaToMeta(), torch.device("meta"):
            return adapters.build_model(config)
