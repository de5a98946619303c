"""One config object of torchao: which tensors it makes of a weight.

Source: torchao 0.18.0, quantization/quant_api.py and quantize_/workflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.scheme import Activations, Layout, Scheme, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

_INT4_PACKING = {
    "PLAIN": "Int4Tensor",
    "PLAIN_INT32": "Int4PlainInt32Tensor",
    "TILE_PACKED_TO_4D": "Int4TilePackedTo4dTensor",
    "PRESHUFFLED": "Int4PreshuffledTensor",
}
_UNPACKED = "UNPACKED_TO_INT8"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a config makes of a weight.

    Attributes:
        name: The config's class.
        scheme: None where the class of the tensor, or its blocks, are not known here.
    """

    name: str
    scheme: Scheme | None = None


def read_recipe(config: Mapping[str, Any]) -> Recipe:
    """Read a config (`{_type, _data, _version}`); what it leaves out has torchao's default."""
    name, data = config.get("_type"), config.get("_data")
    name = name if isinstance(name, str) else ""
    data = data if isinstance(data, dict) else {}
    eight = Activations(8, "int", Strategy.TOKEN, dynamic=True)
    match name:
        case "Int4WeightOnlyConfig":
            packing = data.get("int4_packing_format", "plain")
            return _int4(name, _INT4_PACKING.get(_word(packing).upper(), ""), data)
        case "Int8WeightOnlyConfig":
            return _plain(name, "Int8Tensor", "int", _blocks(data, "granularity"), None)
        case "Int8DynamicActivationInt8WeightConfig":
            return _plain(name, "Int8Tensor", "int", _blocks(data, "granularity"), eight)
        case "Float8WeightOnlyConfig":
            return _plain(name, "Float8Tensor", "float", _blocks(data, "granularity"), None)
        case "Float8DynamicActivationFloat8WeightConfig":
            inputs = Activations(8, "float", Strategy.TOKEN, dynamic=True)
            return _plain(name, "Float8Tensor", "float", _blocks(data, "granularity"), inputs)
        case "IntxWeightOnlyConfig":
            return _intx(name, data, "weight_dtype", "granularity", None)
        case "Int8DynamicActivationIntxWeightConfig":
            return _intx(name, data, "weight_dtype", "weight_granularity", eight)
    return Recipe(name)


def _word(value: object) -> str:
    """The word that an enumeration or a type is written as, plain or as `{_data, _type}`."""
    value = value.get("_data") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _blocks(data: Mapping[str, Any], key: str) -> tuple[int, int] | None:
    """(rows, columns) per scale, 0 for all of an axis, None if open; a list is (inputs, weight)."""
    value = data.get(key)
    if isinstance(value, list):
        value = value[-1] if value else None
    if value is None:
        return (1, 0)  # PerRow
    kind = value.get("_type") if isinstance(value, dict) else None
    inner = value.get("_data") if isinstance(value, dict) else None
    inner = inner if isinstance(inner, dict) else {}
    match kind:
        case "PerTensor":
            return (0, 0)
        case "PerRow":
            return (1, 0) if inner.get("dim", -1) == -1 else None
        case "PerAxis":
            return (1, 0) if inner.get("axis", 0) == 0 else None
        case "PerGroup":
            size = inner.get("group_size")
            return (1, size) if type(size) is int and 0 < size < 1 << 31 else None
    return None


def _scheme(
    tensor: str, bits: int, kind: str, block: tuple[int, int] | None, inputs: Activations | None
) -> Scheme | None:
    strategy: Strategy
    size: int | None
    match block:
        case None:
            return None
        case (0, _):
            strategy, size = Strategy.TENSOR, None
        case (_, columns) if columns:
            strategy, size = Strategy.GROUP, columns
        case _:
            strategy, size = Strategy.CHANNEL, None
    return Scheme(
        Layout.TORCHAO,
        bits,
        kind,
        strategy,
        size,
        activations=inputs,
        scale_name="_weight_scale",
        storage=tensor,
    )


def _plain(
    name: str, tensor: str, kind: str, block: tuple[int, int] | None, inputs: Activations | None
) -> Recipe:
    return Recipe(name, _scheme(tensor, 8, kind, block, inputs))


def _int4(name: str, tensor: str, data: Mapping[str, Any]) -> Recipe:
    size = data.get("group_size", 128)
    block = (1, size) if type(size) is int and 0 < size < 1 << 31 else None
    return Recipe(name, _scheme(tensor, 4, "int", block, None) if tensor else None)


def _intx(
    name: str, data: Mapping[str, Any], dtype_key: str, key: str, inputs: Activations | None
) -> Recipe:
    dtype = _word(data.get(dtype_key, "int8"))
    packing = data.get("intx_packing_format", _UNPACKED)
    bits = int(dtype[3:]) if dtype[:3] == "int" and dtype[3:] in set("12345678") else 0
    default = {"_type": "PerGroup", "_data": {"group_size": 32}} if inputs else None
    block = _blocks({key: data.get(key, default)}, key)
    if _word(packing).upper() != _UNPACKED or not bits:
        return Recipe(name)
    return Recipe(name, _scheme("IntxUnpackedToInt8Tensor", bits, "int", block, inputs))
