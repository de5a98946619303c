"""Real quantized weights: a trained tiny Llama, rounded by us and written as the tools write it.

`quantized(base, method)` gives a config and tensors with their values; `RUINS` break the values and
leave every header as it is.
"""

from __future__ import annotations

import copy
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.support.build import header_bytes
from tests.support.declarations import DECLARATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[Any]

GROUP = 128
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
TYPES = {"F16": np.float16, "BF16": np.uint16, "F32": np.float32, "I32": np.int32, "I64": np.int64}


class Values(dict[str, "tuple[str, Array]"]):
    """Tensors with their values: name → (type as in a header, array of the stored shape)."""

    def text(self, name: str) -> str:
        """The tensor as `header_bytes` takes it."""
        dtype, array = self[name]
        return f"{dtype}[{','.join(map(str, array.shape))}]"


def read(folder: Path) -> tuple[dict[str, Any], Values]:
    """Config and tensors of a model in one float16 file."""
    config = json.loads((folder / "config.json").read_text())
    blob = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8 : 8 + length])
    header.pop("__metadata__", None)
    values = Values()
    for name, entry in header.items():
        begin, end = (8 + length + o for o in entry["data_offsets"])
        array = np.frombuffer(blob[begin:end], TYPES[entry["dtype"]])
        values[name] = (entry["dtype"], array.reshape(entry["shape"]))
    return config, values


def write(folder: Path, config: Mapping[str, Any], values: Values, base: Path | None) -> Path:
    """A model folder in one weight file, with the tokenizer of the base if there is one."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    with (folder / "model.safetensors").open("wb") as file:
        file.write(header_bytes({name: values.text(name) for name in values}))
        for _, array in values.values():
            file.write(np.ascontiguousarray(array).tobytes())
    for name in ("tokenizer.json", "tokenizer_config.json") if base else ():
        (folder / name).write_bytes((base / name).read_bytes())
    return folder


def quantized(base: Path, method: str) -> tuple[dict[str, Any], Values]:
    """The base with its projections in `gptq`, `awq`, `pack`, `fp8-dynamic` or `nvfp4a16`."""
    config, values = read(base)
    config = copy.deepcopy(config)
    config["quantization_config"] = copy.deepcopy(DECLARATIONS[method])
    found = Values()
    for name, (dtype, array) in values.items():
        module = name.removesuffix(".weight")
        if module.endswith("_proj"):
            for leaf, value in METHODS[method](array.astype(np.float32)).items():
                found[f"{module}.{leaf}"] = value
        else:
            found[name] = (dtype, array)
    return config, found


def _grouped(weight: Array, *, symmetric: bool) -> tuple[Array, Array, Array]:
    """Integers [N, K], scales and zero points [N, K / group] of 4 bits."""
    n, k = weight.shape
    groups = weight.reshape(n, k // GROUP, GROUP)
    if symmetric:
        scale = np.maximum(np.abs(groups).max(2) / 7.5, 1e-6)
        zero = np.full_like(scale, 8)
    else:
        low, high = np.minimum(groups.min(2), 0), np.maximum(groups.max(2), 0)
        scale = np.maximum((high - low) / 15, 1e-6)
        zero = np.round(-low / scale)
    whole = np.clip(np.round(groups / scale[..., None]) + zero[..., None], 0, 15)
    return whole.reshape(n, k).astype(np.uint32), scale, zero.astype(np.uint32)


def _packed(whole: Array, axis: int, order: tuple[int, ...] = tuple(range(8))) -> Array:
    """Eight 4-bit numbers to a 32-bit one along an axis, the first of the order lowest."""
    moved = np.moveaxis(whole, axis, -1)
    moved = moved.reshape(*moved.shape[:-1], -1, 8)
    words = np.zeros(moved.shape[:-1], np.uint32)
    for place, which in enumerate(order):
        words |= moved[..., which] << np.uint32(4 * place)
    return np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32)


def _gptq(weight: Array) -> Mapping[str, tuple[str, Array]]:
    whole, scale, zero = _grouped(weight, symmetric=True)
    return {
        "qweight": ("I32", _packed(whole.T, 0)),
        "scales": ("F16", scale.T.astype(np.float16)),
        "qzeros": ("I32", _packed((zero - 1).T, 1)),  # stored less one
        "g_idx": ("I32", (np.arange(weight.shape[1]) // GROUP).astype(np.int32)),
    }


def _awq(weight: Array) -> Mapping[str, tuple[str, Array]]:
    whole, scale, zero = _grouped(weight, symmetric=False)
    return {
        "qweight": ("I32", _packed(whole.T, 1, AWQ_ORDER)),
        "scales": ("F16", scale.T.astype(np.float16)),
        "qzeros": ("I32", _packed(zero.T, 1, AWQ_ORDER)),
    }


def _pack(weight: Array) -> Mapping[str, tuple[str, Array]]:
    whole, scale, _ = _grouped(weight, symmetric=True)
    return {
        "weight_packed": ("I32", _packed(whole, 1)),
        "weight_scale": ("F16", scale.astype(np.float16)),
        "weight_shape": ("I64", np.array(weight.shape, np.int64)),
    }


def _nearest(values: Array, grid: Array) -> Array:
    """Codes of the nearest numbers of a sign-and-magnitude grid whose first half is ascending."""
    middles = (grid[1:] + grid[:-1]) / 2
    codes = np.searchsorted(middles, np.abs(values)).astype(np.uint8)
    return codes | (np.signbit(values).astype(np.uint8) * np.uint8(len(grid) + len(grid) % 2))


_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
# E4M3 without its NaN: 127 magnitudes up to 448.
_FP8 = np.array(
    [
        (c & 7) / 8 * 2.0**-6 if c < 8 else (1 + (c & 7) / 8) * 2.0 ** ((c >> 3) - 7)
        for c in range(127)
    ],
    np.float32,
)


def _fp8(values: Array) -> Array:
    return _nearest(np.clip(values, -448, 448), _FP8)


def _fp8_dynamic(weight: Array) -> Mapping[str, tuple[str, Array]]:
    scale = np.maximum(np.abs(weight).max(1, keepdims=True) / 448, 1e-9)
    return {
        "weight": ("F8_E4M3", _fp8(weight / scale)),
        "weight_scale": ("F32", scale.astype(np.float32)),
    }


def _nvfp4a16(weight: Array) -> Mapping[str, tuple[str, Array]]:
    n, k = weight.shape
    whole = np.float32(448 * 6 / np.abs(weight).max())
    groups = weight.reshape(n, k // 16, 16)
    codes = _fp8(np.abs(groups).max(2) / 6 * whole)
    scale = np.maximum(_FP8[codes] / whole, 1e-9)
    fours = _nearest(np.clip(groups / scale[..., None], -6, 6), _FP4).reshape(n, k)
    return {
        "weight_packed": ("U8", fours[:, ::2] | (fours[:, 1::2] << 4)),
        "weight_scale": ("F8_E4M3", codes),
        "weight_global_scale": ("F32", np.array([whole], np.float32)),
    }


METHODS: dict[str, Callable[[Array], Mapping[str, tuple[str, Array]]]] = {
    "gptq": _gptq,
    "awq": _awq,
    "pack": _pack,
    "fp8-dynamic": _fp8_dynamic,
    "nvfp4a16": _nvfp4a16,
}

_SCALES = ("scales", "weight_scale")
_PACKED = ("qweight", "weight_packed", "weight")


def _of(values: Values, leaves: tuple[str, ...]) -> list[str]:
    """Tensors of quantized projections with one of these last names."""
    return [n for n in values if "_proj." in n and n.rpartition(".")[2] in leaves]


def _zero_scales(values: Values) -> None:
    for name in _of(values, _SCALES):
        dtype, array = values[name]
        values[name] = (dtype, np.zeros_like(array))


def _nan_scale(values: Values) -> None:
    """One scale of one layer."""
    name = next(n for n in _of(values, _SCALES) if ".1.mlp.down_proj." in n)
    dtype, array = values[name]
    broken = array.copy()
    broken.flat[0] = 0x7F if array.dtype == np.uint8 else np.nan
    values[name] = (dtype, broken)


def _reversed_nibbles(values: Values) -> None:
    """As if the tool had packed from the other end; in FP8 the halves of each byte."""
    for name in _of(values, _PACKED):
        dtype, array = values[name]
        raw = array.view(np.uint8)
        raw = (raw >> 4) | (raw << 4)
        if array.dtype == np.int32:
            raw = raw.reshape(-1, 4)[:, ::-1]
        turned = np.ascontiguousarray(raw).view(array.dtype).reshape(array.shape)
        values[name] = (dtype, turned)


RUINS: dict[str, Callable[[Values], None]] = {
    "zero scales": _zero_scales,
    "NaN scale": _nan_scale,
    "reversed nibbles": _reversed_nibbles,
}


def ruined(values: Values, how: str) -> Values:
    """The same headers with broken values."""
    found = Values(values)
    RUINS[how](found)
    return found
