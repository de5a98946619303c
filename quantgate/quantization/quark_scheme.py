"""Which scheme vLLM has for a combination of weight and inputs in a Quark config.

Source: vLLM 0.33.0, layers/quantization/quark/quark.py _get_scheme_cls_from_config and
quark_moe.py get_moe_method_target, with the `create_weights` of quark/schemes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.quantization.scheme import Activations, Layout, Scheme, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    Quant = Mapping[str, Any]

_NONE = "No quark compatible scheme was found"
_MX_BITS = {"fp4": 4, "fp6_e3m2": 6, "fp6_e2m3": 6, "fp8_e4m3": 8}
_MX_INPUTS = frozenset(_MX_BITS)
# Quark's FP8 refuses every GPU before Ada (quark_w8a8_fp8.py get_min_capability).
_FP8_CAPABILITY = 89


def select_scheme(
    config: Quant, pack_method: object, *, experts: bool
) -> tuple[Scheme | None, str]:
    """The scheme, or None and what vLLM raises."""
    if config.get("output_tensors") or config.get("bias"):
        return None, "Quark models with output_tensors and bias quantized are not supported"
    weight, inputs = config.get("weight"), config.get("input_tensors")
    if _several(weight) or _several(inputs):
        scheme = (_w4a8(weight, inputs) if experts else None) or _nvfp4(weight, inputs)
        return scheme, "Multi-entry quantization configs are only supported for NVFP4"
    weight, inputs = _only(weight), _only(inputs)
    if weight is None:
        return None, _NONE
    if weight.get("qscheme") == "per_block" and not weight.get("block_size"):
        return None, "Quark W8A8 FP8 per-block weight quantization requires `block_size`"
    found = _fp8(weight, inputs, experts=experts) or _int8(weight, inputs)
    if found is None and weight.get("dtype") in ("int4", "uint4"):
        return _int4(weight, inputs, pack_method)
    return found or _mx(weight, inputs, experts=experts), _NONE


def _several(value: object) -> bool:
    return isinstance(value, list) and len(value) > 1


def _only(value: object) -> Quant | None:
    """A config, also as the single entry of a list."""
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else None
    return value if isinstance(value, dict) else None


def _fp8(weight: Quant, inputs: Quant | None, *, experts: bool) -> Scheme | None:
    if inputs is None or weight.get("dtype") != "fp8_e4m3" or inputs.get("dtype") != "fp8_e4m3":
        return None
    dynamic, kind = bool(inputs.get("is_dynamic")), inputs.get("qscheme")
    if weight.get("is_dynamic"):
        return None
    if weight.get("qscheme") == "per_block":
        if weight.get("block_size") != [128, 128] or weight.get("symmetric") is not True:
            return None
        if not (dynamic and kind == "per_group" and inputs.get("group_size") == 128):
            return None
        return Scheme(
            Layout.FP8,
            8,
            "float",
            Strategy.BLOCK,
            block=(128, 128),
            activations=Activations(8, "float", Strategy.GROUP, dynamic=True),
            capability=_FP8_CAPABILITY,
        )
    if weight.get("qscheme") not in ("per_tensor", "per_channel"):
        return None
    if not dynamic and kind != "per_tensor":
        return None
    channel = weight.get("qscheme") == "per_channel"
    if experts and channel is not (kind == "per_channel"):
        return None
    return Scheme(
        Layout.FP8,
        8,
        "float",
        Strategy.CHANNEL if channel else Strategy.TENSOR,
        activations=Activations(
            8, "float", Strategy.TOKEN if kind == "per_channel" else Strategy.TENSOR, dynamic
        ),
        scale_rank=1 if channel else None,
        capability=_FP8_CAPABILITY,
    )


def _int8(weight: Quant, inputs: Quant | None) -> Scheme | None:
    if inputs is None or weight.get("dtype") != "int8" or inputs.get("dtype") != "int8":
        return None
    kind, dynamic = inputs.get("qscheme"), bool(inputs.get("is_dynamic"))
    if not ((kind == "per_tensor" and not dynamic) or (kind == "per_channel" and dynamic)):
        return None
    if weight.get("qscheme") not in ("per_tensor", "per_channel"):
        return None
    if weight.get("symmetric") is not True:
        return None
    channel = weight.get("qscheme") == "per_channel"
    return Scheme(
        Layout.INT8,
        8,
        "int",
        Strategy.CHANNEL if channel else Strategy.TENSOR,
        activations=Activations(
            8,
            "int",
            Strategy.TOKEN if dynamic else Strategy.TENSOR,
            dynamic,
            inputs.get("symmetric") is True,
        ),
        scale_rank=1 if channel else None,
        zero_points_stored=True,
    )


def _int4(weight: Quant, inputs: Quant | None, pack_method: object) -> tuple[Scheme | None, str]:
    """Linears and experts alike: vLLM repacks an expert's tensors while it loads them."""
    if inputs is not None or pack_method not in ("order", "reorder"):
        return None, _NONE
    size, symmetric = weight.get("group_size"), weight.get("symmetric")
    if type(size) is not int or size <= 0:
        return None, "Quark W4A16 weight.group_size must be a positive int"
    if not isinstance(symmetric, bool):
        return None, "Quark W4A16 weight.symmetric must be a bool"
    scheme = Scheme(Layout.QUARK_INT4, 4, "int", Strategy.GROUP, size, symmetric=symmetric)
    return scheme, ""


def _mx(weight: Quant, inputs: Quant | None, *, experts: bool) -> Scheme | None:
    dtype = weight.get("dtype")
    bits = _MX_BITS.get(dtype) if isinstance(dtype, str) else None
    rows = _mx_rows(weight, bits)
    activations = _mx_inputs(inputs, bits, experts=experts)
    if bits is None or rows is None or activations == "none":
        return None
    layout = Layout.MXFP8 if bits == 8 else Layout.OCP_MX
    strategy = Strategy.GROUP if rows == 1 else Strategy.BLOCK
    return Scheme(
        layout,
        bits,
        "float",
        strategy,
        32,
        block=None if rows == 1 else (rows, 32),
        activations=None if isinstance(activations, str) else activations,
    )


def _mx_rows(weight: Quant, bits: int | None) -> int | None:
    """How many rows share a scale (utils/ocp_mx_utils.py), None if this is no MX weight."""
    if weight.get("qscheme") == "per_group":
        mx = weight.get("group_size") == 32 and weight.get("scale_format") == "e8m0"
        return 1 if mx else None
    size = weight.get("block_size")
    if weight.get("qscheme") != "per_block" or bits != 8 or not isinstance(size, list):
        return None
    plain = weight.get("symmetric") is True and not weight.get("is_dynamic")
    if not plain or weight.get("scale_type") != "float8_e8m0fnu":
        return None
    rows = size[0] if len(size) == 2 and size[1] == 32 else None
    return rows if type(rows) is int and rows > 0 else None


def _mx_inputs(inputs: Quant | None, bits: int | None, *, experts: bool) -> Activations | str:
    """The inputs; "dense" for none, "none" for a kind that vLLM refuses."""
    if inputs is None:
        return "dense"
    dtype = inputs.get("dtype")
    if not isinstance(dtype, str) or dtype not in _MX_INPUTS:
        return "none"
    eight = dtype == "fp8_e4m3"
    if not inputs.get("is_dynamic"):
        static = eight and inputs.get("qscheme") == "per_tensor" and inputs.get("symmetric") is True
        if not static or (bits != 4 and not experts):
            return "none"
        return Activations(8, "float", Strategy.TENSOR, dynamic=False)
    return Activations(_MX_BITS[dtype], "float", Strategy.GROUP, dynamic=True)


def _nvfp4(weight: object, inputs: object) -> Scheme | None:
    """Two entries each: fp4 per group of 16, and the fp8 scale of the whole tensor."""
    if not _pair(weight, dynamic=False) or not _pair(inputs, dynamic=True):
        return None
    return Scheme(
        Layout.MODELOPT_NVFP4,
        4,
        "float",
        Strategy.TENSOR_GROUP,
        16,
        activations=Activations(4, "float", Strategy.TENSOR_GROUP, dynamic=False),
        input_scale_name="input_scale_2",
    )


def _w4a8(weight: object, inputs: object) -> Scheme | None:
    """Experts in int4 per channel below fp8 per tensor, for AMD's kernels only (_is_fp8_w4a8)."""
    given = _only(inputs)
    if not isinstance(weight, list) or len(weight) != 2 or given is None:
        return None
    outer, inner = weight
    if not isinstance(outer, dict) or not isinstance(inner, dict):
        return None
    types = (outer.get("dtype"), inner.get("dtype"), given.get("dtype"))
    if types != ("fp8_e4m3", "int4", "fp8_e4m3"):
        return None
    if outer.get("is_dynamic") or inner.get("is_dynamic") or inner.get("symmetric") is not True:
        return None
    if (outer.get("qscheme"), inner.get("qscheme"), inner.get("ch_axis")) != (
        "per_tensor",
        "per_channel",
        0,
    ):
        return None
    dynamic = bool(given.get("is_dynamic"))
    if not dynamic and given.get("qscheme") != "per_tensor":
        return None
    kind = Strategy.TOKEN if dynamic else Strategy.TENSOR
    inputs8 = Activations(8, "float", kind, dynamic)
    return Scheme(Layout.QUARK_W4A8, 4, "int", Strategy.CHANNEL, activations=inputs8)


def _pair(value: object, *, dynamic: bool) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    first, second = value
    if not isinstance(first, dict) or not isinstance(second, dict):
        return False
    return (
        first.get("dtype") == "fp4"
        and first.get("qscheme") == "per_group"
        and first.get("group_size") == 16
        and bool(first.get("is_dynamic")) is dynamic
        and second.get("dtype") == "fp8_e4m3"
        and second.get("qscheme") == "per_tensor"
        and not second.get("is_dynamic")
    )
