"""Stands in for what a GPU build has and this machine has not: compiled modules and their ops.

A stub says what it is asked about support, and raises `StubCalled` when it is asked to compute.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from typing import TYPE_CHECKING, Any

import torch
import torch._ops
import torch.library

from .reasons import StubCalled

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers imports with modules that hold what `attribute` makes of a name."""

    def __init__(self, answers: Callable[[str], bool], attribute: Callable[[str], Any] | None):
        self.answers = answers
        self.attribute = attribute

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Claim the modules that `answers` knows."""
        if not self.answers(fullname):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=self.attribute is not None)

    def create_module(self, spec: Any) -> None:
        """An ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its attributes, made when asked for."""
        make = self.attribute
        if make is None:
            return

        def missing(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return make(name)

        module.__getattr__ = missing  # type: ignore[method-assign]


def _is_compiled(name: str) -> bool:
    leaf = name.rpartition(".")[2]
    return name.startswith("vllm.") and (leaf.endswith("_C") or "_C_" in leaf)


def _is_kernel_library(name: str) -> bool:
    return name.startswith(
        ("vllm.third_party.flash", "vllm.third_party.flashmla", "vllm.vllm_flash_attn")
    )


def _empty_class(name: str) -> type:
    return type(name, (), {"__init__": lambda _self, *_args, **_kwargs: None})


def stub_compiled_modules() -> None:
    """Answer vLLM's compiled modules, also where they are installed: those of a GPU need one."""
    sys.meta_path.insert(0, _Finder(_is_compiled, None))
    sys.meta_path.append(_Finder(_is_kernel_library, _empty_class))


def stub_torchvision() -> None:
    """Answer torchvision, which some image processors import, where it is not installed."""
    from transformers.utils import import_utils

    # Asked once, before the stub is there: transformers must go on knowing that it is absent.
    if not import_utils.is_torchvision_available():
        sys.meta_path.append(
            _Finder(lambda n: n.split(".")[0] == "torchvision", lambda n: type(n, (), {}))
        )


class _Op:
    """An op of a compiled module. `name` is that of the op, such as `cutlass_scaled_mm`."""

    def __init__(self, name: str, capability: int) -> None:
        self.name = name
        self.capability = capability

    def __call__(self, *_args: Any, **_kwargs: Any) -> bool:
        if "support" not in self.name:
            raise StubCalled(f"the kernel {self.name} is not simulated")
        return self.capability >= _needed(self.name)

    def __getattr__(self, attribute: str) -> _Op:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return _Op(f"{self.name}.{attribute}", self.capability)


def _needed(op: str) -> int:
    """The compute capability from which vLLM's CUDA kernels say yes.

    vLLM 0.32.0, csrc/quantization/w8a8/cutlass/scaled_mm_entry.cu and fp4/nvfp4_scaled_mm_entry.cu.
    """
    if "fp4" in op:
        return 100
    if "block" in op or "group" in op or "sparse" in op:
        return 90
    return 89 if "fp8" in op else 0


def stub_ops(capability: tuple[int, int]) -> None:
    """Answer ops that no compiled module registered; fake versions of absent ops are ignored."""
    level = capability[0] * 10 + capability[1]
    namespace = torch._ops._OpNamespace
    real_getattr = namespace.__getattr__
    real_register = torch.library.register_fake

    def getattr_or_stub(self: Any, name: str) -> Any:
        try:
            return real_getattr(self, name)
        except AttributeError:
            if self.name.startswith("_") and not name.startswith("__"):
                return _Op(name, level)
            raise

    def register_fake(op: Any, func: Any = None, *args: Any, **kwargs: Any) -> Any:
        if func is None:
            return lambda f: register_fake(op, f, *args, **kwargs)
        try:
            return real_register(op, func, *args, **kwargs)
        except RuntimeError:
            return func

    namespace.__getattr__ = getattr_or_stub
    torch.library.register_fake = register_fake


class _TritonConfig:
    """`triton.Config`, which kernels build while they are imported."""

    def __init__(self, kwargs: Any = None, num_warps: int = 4, num_stages: int = 3, **_: Any):
        self.kwargs = kwargs or {}
        self.num_warps = num_warps
        self.num_stages = num_stages


def stub_triton() -> None:
    """Complete vLLM's own placeholder for an absent triton."""
    from vllm import triton_utils

    if not triton_utils.HAS_TRITON:
        triton_utils.triton.Config = _TritonConfig


class _Nothing:
    """Streams and events: every method does nothing."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return lambda *_args, **_kwargs: None


def stub_torch_cuda(capability: tuple[int, int], name: str, memory: int, processors: int) -> None:
    """Let torch's own questions about the device have the simulated GPU's answers."""

    class Properties:
        major, minor = capability
        total_memory = memory
        multi_processor_count = processors
        shared_memory_per_block_optin = 232448
        warp_size = 32

    Properties.name = name  # type: ignore[attr-defined]
    cuda: Any = torch.cuda
    cuda.Stream = cuda.Event = _Nothing
    cuda.set_device = lambda *_args, **_kwargs: None
    cuda.current_device = lambda *_args, **_kwargs: 0
    cuda.get_device_properties = lambda *_args, **_kwargs: Properties()
    cuda.get_device_capability = lambda *_args, **_kwargs: capability
    cuda.get_device_name = lambda *_args, **_kwargs: name
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None:
        # vLLM passes this index on as device=...; here every device is meta.
        accelerator.current_device_index = lambda: torch.device("meta")
