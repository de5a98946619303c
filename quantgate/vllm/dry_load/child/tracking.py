"""Follows every element from the checkpoint's tensors into the parameters.

vLLM's own check asks which *parameters* were loaded; a fused one counts as loaded as soon as one
of its shards was. Here every copy is seen as it happens, with the region it reads and writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .regions import Region

_SCALAR = torch.ops.aten._local_scalar_dense.default
_EQUAL = torch.ops.aten.equal.default
_COPY = torch.ops.aten.copy_.default
_TO_COPY = torch.ops.aten._to_copy.default


def storage(tensor: Any) -> int:
    """What all views of the same memory have in common."""
    return int(tensor.untyped_storage()._cdata)


def _region(tensor: Any) -> Region:
    return (tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Tracker(TorchDispatchMode):
    """Which checkpoint tensors reach which elements.

    Attributes:
        origin: Storage → the checkpoint tensors whose values are in it.
        written: Storage of a watched parameter → the regions that were written.
        read: Checkpoint tensor → the regions that were read, not only viewed.
        size: Checkpoint tensor → its number of elements.
        casts: Checkpoint tensor → the types it was converted from and to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.origin: dict[int, set[str]] = {}
        self.written: dict[int, set[Region]] = {}
        self.read: dict[str, set[Region]] = {}
        self.size: dict[str, int] = {}
        self.casts: dict[str, tuple[Any, Any]] = {}
        self._sources: dict[int, str] = {}
        # A storage that is freed could have its address, and so its key, given to another.
        self._kept: list[Any] = []

    def add_source(self, name: str, tensor: Any) -> None:
        """Follow a tensor of the checkpoint."""
        key = storage(tensor)
        self._kept.append(tensor.untyped_storage())
        self.origin[key] = {name}
        self._sources[key] = name
        self.size[name] = tensor.numel()
        self.read[name] = set()

    def watch(self, tensors: Iterable[Any]) -> None:
        """Note what is written into these from now on."""
        for tensor in tensors:
            self._kept.append(tensor.untyped_storage())
            self.written.setdefault(storage(tensor), set())

    def names_in(self, tensor: Any) -> set[str]:
        """The checkpoint tensors whose values are in this one."""
        return self.origin.get(storage(tensor), set())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the op on meta tensors, and note what it moves."""
        kwargs = kwargs or {}
        first: Any = args[0] if args else None
        if isinstance(first, torch.Tensor) and first.device.type == "meta":
            # Values are asked for where they are only compared or checked.
            if func is _SCALAR:
                return False if first.dtype == torch.bool else _one(first)
            if func is _EQUAL:
                return first.shape == args[1].shape
            if func is _TO_COPY and kwargs.get("device") is not None:
                kwargs = {**kwargs, "device": torch.device("meta")}
        if func is _COPY and first.device.type != "meta" and args[1].device.type == "meta":
            # A parameter that was made on the CPU: only the shapes can be tried.
            torch.empty(first.shape, device="meta").copy_(args[1])
            out = first
        else:
            out = func(*args, **kwargs)
        self._note(func, _tensors((args, kwargs)), _tensors(out))
        if func is _COPY and first.dtype != args[1].dtype:
            for name in self.names_in(args[1]):
                self.casts[name] = (args[1].dtype, first.dtype)
        return out

    def _note(self, func: Any, given: list[Any], made: list[Any]) -> None:
        made_keys = {storage(t) for t in made}
        names: set[str] = set()
        for tensor in given:
            key = storage(tensor)
            names |= self.origin.get(key, set())
            if key in self._sources and key not in made_keys:
                self.read[self._sources[key]].add(_region(tensor))
        if func._schema.is_mutable and given:
            self._note_written(given[0], names)
        elif names:
            for tensor in made:
                key = storage(tensor)
                if key not in self.origin:
                    self._kept.append(tensor.untyped_storage())
                self.origin.setdefault(key, set()).update(names)

    def _note_written(self, tensor: Any, names: set[str]) -> None:
        key = storage(tensor)
        if key in self.written:
            self.written[key].add(_region(tensor))
        if names:
            self.origin.setdefault(key, set()).update(names)


def _one(tensor: Any) -> float | int:
    return 1.0 if tensor.dtype.is_floating_point else 1


class CudaToMeta(TorchFunctionMode):
    """Sends to `meta` whatever vLLM wants to put on the GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the function with other devices."""
        kwargs = kwargs or {}
        if func is not torch.device:
            args = tuple(_moved(a) for a in args)
            kwargs = {k: _moved(v) for k, v in kwargs.items()}
        return func(*args, **kwargs)


def _moved(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("meta")
    return "meta" if isinstance(value, str) and value.startswith("cuda") else value
