"""Makes vLLM believe that it runs on a chosen GPU, before it first asks."""

from __future__ import annotations

from typing import Any

import torch

from .gpus import CPU, GPUS, Gpu
from .stubs import stub_compiled_modules, stub_ops, stub_torch_cuda, stub_torchvision, stub_triton


def simulate(gpu: str, ranks: int) -> None:
    """Put the platform in place. Nothing of vLLM but `vllm` itself may have been imported.

    Args:
        gpu: A key of `GPUS`, or `cpu`.
        ranks: How many devices there are to be, at least.
    """
    stub_torchvision()
    if gpu == CPU:
        _simulate_cpu()
    else:
        _simulate_cuda(GPUS[gpu], ranks)


def _set(platform: Any) -> None:
    from vllm import platforms

    platforms._current_platform = platform
    platforms.current_platform = platform


def _simulate_cpu() -> None:
    # The class itself, and not what detection finds: a build for GPUs detects nothing here.
    from vllm.platforms.cpu import CpuPlatform

    _set(CpuPlatform())


def _simulate_cuda(gpu: Gpu, ranks: int) -> None:
    memory = gpu.memory << 30
    stub_compiled_modules()
    stub_ops(gpu.capability)
    stub_torch_cuda(gpu.capability, gpu.name, memory, gpu.multiprocessors)
    stub_triton()
    from vllm.platforms import cuda
    from vllm.platforms.interface import DeviceCapability

    class SimulatedCuda(cuda.NonNvmlCudaPlatform):
        """A CUDA platform that asks no driver."""

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return DeviceCapability(*gpu.capability)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return gpu.name

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:
            return memory

        @classmethod
        def num_compute_units(cls, device_id: int = 0) -> int:
            return gpu.multiprocessors

        @classmethod
        def get_cuda_runtime_major(cls) -> int:
            return 13

        @classmethod
        def import_kernels(cls) -> None:
            pass

        @classmethod
        def device_count(cls) -> int:
            return max(8, ranks)

        @classmethod
        def current_device(cls) -> Any:
            return torch.device("meta")

        @classmethod
        def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:
            return True

    _set(SimulatedCuda())
