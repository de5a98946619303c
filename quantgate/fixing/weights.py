"""Weight files one at a time: mapped for reading, written by the safetensors library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from safetensors import TensorSpec, serialize_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from quantgate.checkpoint.model import Header, Tensor

    Bytes = NDArray[np.uint8]

# What the library calls the dtypes of a header when it writes.
_NAMES: Final = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
}
WRITABLE = frozenset(_NAMES)


class Stored:
    """The tensors of one file, as bytes that are read when they are looked at."""

    def __init__(self, path: Path, header: Header) -> None:
        self.header = header
        self.tensors: Mapping[str, Tensor] = {t.name: t for t in header.tensors}
        empty = not any(t.nbytes for t in header.tensors)  # what cannot be mapped
        self._data: Bytes = (
            np.empty(0, np.uint8)
            if empty
            else np.memmap(path, np.uint8, "r", offset=8 + header.size)
        )

    def raw(self, name: str) -> Bytes:
        """The bytes of a tensor."""
        tensor = self.tensors[name]
        return self._data[tensor.begin : tensor.end]

    def words(self, name: str) -> NDArray[np.int32]:
        """An I32 tensor."""
        return self.raw(name).view(np.int32).reshape(self.tensors[name].shape)


def write_weights(
    path: Path, stored: Stored, changed: Mapping[str, NDArray[np.int32] | None]
) -> None:
    """Write a file with the tensors of another, some of them changed, added, or left out (None).

    Raises:
        OSError: The file cannot be written.
    """
    specs: dict[str, Any] = {}
    kept: list[NDArray[Any]] = []  # the library takes addresses; the arrays must stay alive
    for name, tensor in stored.tensors.items():
        if name in changed:
            continue
        data = np.ascontiguousarray(stored.raw(name))
        kept.append(data)
        specs[name] = _spec(_NAMES[tensor.dtype], tensor.shape, data)
    for name, words in changed.items():
        if words is not None:
            data = np.ascontiguousarray(words)
            kept.append(data)
            specs[name] = _spec("int32", data.shape, data)
    serialize_file(specs, path, dict(stored.header.metadata) or None)


def _spec(dtype: str, shape: tuple[int, ...], data: NDArray[Any]) -> TensorSpec:
    return TensorSpec(
        dtype=dtype, shape=list(shape), data_ptr=data.ctypes.data, data_len=data.nbytes
    )
