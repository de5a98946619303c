"""Tensors on `meta`, in the types and shapes of the safetensors headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .adapters import file_order
from .reasons import UnknownType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .tracking import Tracker

_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F4": "float4_e2m1fn_x2",
}


class HeaderReader:
    """Stands in for vLLM's iterator over weight files.

    Attributes:
        seen: The tensors handed out so far.
        last: The newest of them; empty before the first and after the last.
    """

    def __init__(self, tracker: Tracker) -> None:
        self.tracker = tracker
        self.seen: set[str] = set()
        self.last = ""

    def __call__(self, files: Iterable[str], *_: Any, **__: Any) -> Iterator[tuple[str, Any]]:
        """The tensors of the files, in vLLM's order."""
        from safetensors import safe_open

        for file in file_order(files):
            # For numpy it maps the file read-only; for torch it maps it for writing, which a
            # machine with less memory than the file is long refuses.
            with safe_open(file, framework="np") as opened:
                for name in opened.keys():  # noqa: SIM118  it is no mapping
                    piece = opened.get_slice(name)
                    self.last = name
                    yield name, self._tensor(name, piece.get_dtype(), piece.get_shape())
        self.last = ""

    def _tensor(self, name: str, kind: str, shape: list[int]) -> Any:
        dtype = getattr(torch, _TYPES.get(kind, ""), None)
        if dtype is None:
            raise UnknownType(f"this torch has no type for {kind}")
        tensor = torch.empty(shape, dtype=dtype, device="meta")
        self.seen.add(name)
        self.tracker.add_source(name, tensor)
        return tensor
