"""The dry load: vLLM's own loader on headers alone, for any GPU, without a GPU.

A child process under a Python that has vLLM (`child/`) builds the model on `meta` tensors and feeds
its own `load_weights` with tensors shaped after the headers, while it believes it runs on a chosen
GPU. This side imports neither torch nor vLLM:

    loads = dry_load(["./model"], gpu="sm90", tensor_parallel=2, vllm_python="…/bin/python")
    loads.results[0].outcome
"""

from __future__ import annotations

from quantgate.vllm.children.process import Limits
from quantgate.vllm.dry_load.child.gpus import CPU, GPUS
from quantgate.vllm.dry_load.result import DryLoad, DryOutcome, DryRun
from quantgate.vllm.dry_load.runner import DryLoadError, dry_load

__all__ = [
    "CPU",
    "GPUS",
    "DryLoad",
    "DryLoadError",
    "DryOutcome",
    "DryRun",
    "Limits",
    "dry_load",
]
