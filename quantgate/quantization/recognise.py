"""Which method wrote a checkpoint, judged without the `quant_method` key.

Used where a config names no method or a wrong one, to say what is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.quantization.awq_kernels import awq_kernel
from quantgate.quantization.foreign import format_of
from quantgate.quantization.observed import is_quantized, observe, stored_layout
from quantgate.quantization.scheme import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

# Keys that only one method writes; the first that is there decides. auto-round before the
# keys it shares with GPTQ and AWQ, ModelOpt before compressed-tensors, whose groups it copies.
_KEYS = (
    ("autoround_version", "auto-round"),
    ("packing_format", "auto-round"),
    ("quant_algo", "modelopt"),
    ("quant_type", "torchao"),
    ("bnb_4bit_quant_type", "bitsandbytes"),
    ("load_in_4bit", "bitsandbytes"),
    ("load_in_8bit", "bitsandbytes"),
    ("global_quant_config", "quark"),
    ("config_groups", "compressed-tensors"),
    ("activation_scheme", "fp8"),
    ("zero_point", "awq"),
    ("w_bit", "awq"),
    ("desc_act", "gptq"),
    ("is_marlin_format", "gptq"),
)
# Methods that store their tensors in the layout of another one.
_SAME_TENSORS = {"auto-round": frozenset({"gptq", "awq", "fp8", "compressed-tensors"})}


def is_mlx(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is one of MLX: `quantization` with a group size and bits at the top."""
    block = config.get("quantization")
    return isinstance(block, dict) and "group_size" in block and "bits" in block


def method_of_block(block: Mapping[str, Any]) -> str:
    """The method whose keys a block has, empty if that is open."""
    return next((method for key, method in _KEYS if key in block), "")


def method_of_tensors(modules: Mapping[str, Leaves]) -> str:
    """The method that stores such tensors, empty if several do or the modules do not agree.

    Args:
        modules: Module → leaf → (dtype, shape).
    """
    methods = {_method_of_module(leaves) for leaves in modules.values()}
    methods.discard(None)
    return next(iter(methods)) or "" if len(methods) == 1 else ""


def meant_method(block: Mapping[str, Any], modules: Mapping[str, Leaves]) -> str:
    """The method that block and tensors agree on, empty if one contradicts the other."""
    by_block, by_tensors = method_of_block(block), method_of_tensors(modules)
    if not by_block or not by_tensors or by_block == by_tensors:
        return by_block or by_tensors
    return by_block if by_tensors in _SAME_TENSORS.get(by_block, ()) else ""


def _method_of_module(leaves: Leaves) -> str | None:
    """The method of one module; empty if it is quantized but open, None if it is not quantized."""
    if stored_layout(leaves) in {Layout.BNB_4BIT, Layout.BNB_INT8}:
        return "bitsandbytes"
    match stored_layout(leaves):
        case Layout.TORCHAO:
            return "torchao"
        case Layout.QUARK_W4A8:
            return "quark"
    foreign = format_of(leaves)
    if foreign is not None:
        return foreign.method
    if not is_quantized(leaves):
        return None
    match stored_layout(leaves):
        case Layout.GPTQ if awq_kernel(leaves) is not None:
            return "awq"
        case Layout.GPTQ:
            layout = observe(leaves).layout
            return str(layout) if layout is not None else ""
        case Layout.PACKED | Layout.NVFP4 | Layout.MXFP4:
            return "compressed-tensors"
        case Layout.INT8 if "weight_scale" in leaves:
            shape = leaves["weight_scale"][1]
            return "quark" if len(shape) == 1 and shape != (1,) else "compressed-tensors"
        case Layout.FP8 if "weight_scale_inv" in leaves:
            return "fp8"
    if "input_scale_2" in leaves or stored_layout(leaves) is Layout.QUARK_INT4:
        return "quark"
    return "modelopt" if "weight_scale_2" in leaves else ""
