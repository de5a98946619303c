"""Which tensors a scheme must store for a weight of N by K.

Source of every shape: vLLM 0.33.0, the `create_weights` of each method under
vllm/model_executor/layers/quantization, for tensor_parallel 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING

from quantgate.quantization.scheme import Layout, Strategy

if TYPE_CHECKING:
    from quantgate.quantization.scheme import Scheme

FLOATS = ("BF16", "F16", "F32")
FP8_TYPES = ("F8_E4M3", "F8_E4M3FNUZ")
SCALAR = "[] or [1]"
Dim = int | None
Shape = tuple[Dim, ...]


class Role(StrEnum):
    """What a tensor of a module is for."""

    WEIGHT = "weight"
    SCALE = "scale"
    ZERO_POINT = "zero point"
    G_IDX = "g_idx"
    GLOBAL_SCALE = "global scale"
    INPUT_SCALE = "input scale"
    SHAPE = "weight_shape"
    BIAS = "bias"
    STATE = "quantization state"


@dataclass(frozen=True, slots=True)
class Expected:
    """One tensor that vLLM allocates for a module.

    Attributes:
        leaf: Last component of its name.
        role: What it is for.
        dtypes: Types that hold the values meant, the usual one first.
        shapes: Shapes the loader accepts, the usual one first; None is "any length".
        axes: For each axis of the usual shape what lies along it: `N`, `K` (values, words, groups
            or blocks along it) or `-`.
        formula: The usual shape in words, such as `[K/8, N]`.
        required: Whether its absence leaves a parameter uninitialised. vLLM does without some:
            g_idx, weight_shape, and the zero points of a symmetric GPTQ file.
    """

    leaf: str
    role: Role
    dtypes: tuple[str, ...]
    shapes: tuple[Shape, ...]
    axes: tuple[str, ...]
    formula: str
    required: bool = True


def expected_tensors(scheme: Scheme, n: Dim, k: Dim) -> tuple[Expected, ...]:
    """The tensors of a module of this scheme and size; None stands for an unknown length."""
    match scheme.layout:
        case Layout.GPTQ | Layout.AWQ:
            return _k_first(scheme, n, k)
        case Layout.PACKED:
            return _packed(scheme, n, k)
        case Layout.INT8 | Layout.FP8:
            return _plain(scheme, n, k)
        case Layout.NVFP4:
            return _nvfp4(scheme, n, k)
        case Layout.MODELOPT_NVFP4:
            return _modelopt_nvfp4(scheme, n, k)
        case Layout.GPT_OSS:
            return _gpt_oss(n, k)
        case Layout.QUARK_INT4:
            return _quark_int4(scheme, n, k)
        case Layout.GGML:
            return (_ggml(scheme, n, k),)
        case Layout.QUARK_W4A8:
            return _quark_w4a8(scheme, n, k)
        case Layout.MXFP4 | Layout.MXFP8 | Layout.OCP_MX:
            return _mx(scheme, n, k)
        case Layout.BNB_4BIT:
            return _bitsandbytes_4bit(n, k)
        case Layout.TORCHAO:
            return _torchao(scheme, n, k)
        case Layout.BNB_INT8:
            return _bitsandbytes_int8(n, k)
        case Layout.DENSE:
            return (Expected("weight", Role.WEIGHT, FLOATS, ((n, k),), ("N", "K"), "[N, K]"),)


def groups(scheme: Scheme, k: Dim) -> Dim:
    """Number of scale groups along K: 1 for a channel scale, K/g otherwise."""
    if scheme.group_size is None:
        return 1
    return None if k is None else ceil(k / scheme.group_size)


def _words(length: Dim, bits: int) -> Dim:
    return None if length is None else ceil(length * bits / 32)


def _per_word(bits: int) -> str:
    return f"/{32 // bits}" if 32 % bits == 0 else f"*{bits}/32"


def _k_first(scheme: Scheme, n: Dim, k: Dim) -> tuple[Expected, ...]:
    g, per = groups(scheme, k), _per_word(scheme.bits)
    group = f"K/{scheme.group_size}" if scheme.group_size else "1"
    words = _words(n, scheme.bits)
    if scheme.layout is Layout.GPTQ:
        weight = Expected(
            "qweight",
            Role.WEIGHT,
            ("I32",),
            ((_words(k, scheme.bits), n),),
            ("K", "N"),
            f"[K{per}, N]",
        )
    else:
        weight = Expected(
            "qweight", Role.WEIGHT, ("I32",), ((k, words),), ("K", "N"), f"[K, N{per}]"
        )
    zeros = Expected(
        "qzeros",
        Role.ZERO_POINT,
        ("I32",),
        ((g, words),),
        ("K", "N"),
        f"[{group}, N{per}]",
        required=scheme.layout is Layout.AWQ,
    )
    scales = Expected("scales", Role.SCALE, FLOATS, ((g, n),), ("K", "N"), f"[{group}, N]")
    if scheme.layout is Layout.AWQ:
        return (weight, zeros, scales)
    # g_idx is dropped before loading (base_config.py get_checkpoint_weight_mapper), so only its
    # length can tell something.
    g_idx = Expected("g_idx", Role.G_IDX, ("I32", "I64"), ((k,),), ("-",), "[K]", required=False)
    return (weight, zeros, scales, g_idx)


def _packed(scheme: Scheme, n: Dim, k: Dim) -> tuple[Expected, ...]:
    g, per = groups(scheme, k), _per_word(scheme.bits)
    group = f"K/{scheme.group_size}" if scheme.group_size else "1"
    tensors = [
        Expected(
            "weight_packed",
            Role.WEIGHT,
            ("I32",),
            ((n, _words(k, scheme.bits)),),
            ("N", "K"),
            f"[N, K{per}]",
        ),
        Expected("weight_scale", Role.SCALE, FLOATS, ((n, g),), ("N", "K"), f"[N, {group}]"),
        Expected(
            "weight_shape", Role.SHAPE, ("I64", "I32"), ((2,),), ("-",), "[2]", required=False
        ),
    ]
    if not scheme.symmetric:
        tensors.append(
            Expected(
                "weight_zero_point",
                Role.ZERO_POINT,
                ("I32",),
                ((_words(n, scheme.bits), g),),
                ("N", "K"),
                f"[N{per}, {group}]",
            )
        )
    return (*tensors, *_input_scale(scheme))


def _plain(scheme: Scheme, n: Dim, k: Dim) -> tuple[Expected, ...]:
    dtypes = ("I8",) if scheme.layout is Layout.INT8 else FP8_TYPES
    weight = Expected("weight", Role.WEIGHT, dtypes, ((n, k),), ("N", "K"), "[N, K]")
    shapes: tuple[Shape, ...]
    axes: tuple[str, ...]
    match scheme.strategy:
        case Strategy.TENSOR:
            shapes, axes, formula = ((), (1,)), (), SCALAR
        case Strategy.BLOCK:
            rows, columns = scheme.block or (128, 128)
            high = None if n is None else ceil(n / rows)
            wide = None if k is None else ceil(k / columns)
            shapes, axes = ((high, wide),), ("N", "K")
            formula = f"[N/{rows}, K/{columns}]"
            if scheme.scale_rank == 4:
                shapes, axes = ((high, 1, wide, 1),), ("N", "-", "K", "-")
                formula = f"[N/{rows}, 1, K/{columns}, 1]"
        case Strategy.GROUP:
            shapes, axes = ((n, groups(scheme, k)),), ("N", "K")
            formula = f"[N, K/{scheme.group_size}]"
        case _ if scheme.scale_rank == 1:
            shapes, axes, formula = ((n,),), ("N",), "[N]"
            if scheme.layout is Layout.INT8:
                shapes = (*shapes, (n, 1))  # quark_w8a8_int8.py gives a flat one its second axis
        case _:
            shapes, axes, formula = ((n, 1),), ("N", "-"), "[N, 1]"
    scale_types: tuple[str, ...] = ("F32", "BF16", "F16")
    if scheme.strategy is Strategy.BLOCK:
        scale_types = (*scale_types, "F8_E8M0")
    scale = Expected(scheme.scale_name, Role.SCALE, scale_types, shapes, axes, formula)
    zeros: tuple[Expected, ...] = ()
    if scheme.zero_points_stored:
        zero = Role.ZERO_POINT
        zeros = (
            Expected("weight_zero_point", zero, ("I8",), shapes, axes, formula, required=False),
        )
    return (weight, scale, *zeros, *_input_scale(scheme))


def _nvfp4(scheme: Scheme, n: Dim, k: Dim) -> tuple[Expected, ...]:
    half = None if k is None else ceil(k / 2)
    size = scheme.group_size or 16
    tensors = [
        Expected("weight_packed", Role.WEIGHT, ("U8",), ((n, half),), ("N", "K"), "[N, K/2]"),
        Expected(
            "weight_scale",
            Role.SCALE,
            FP8_TYPES,
            ((n, groups(scheme, k)),),
            ("N", "K"),
            f"[N, K/{size}]",
        ),
        Expected("weight_global_scale", Role.GLOBAL_SCALE, ("F32",), ((1,), ()), ("-",), "[1]"),
    ]
    if scheme.activations is not None:
        tensors.append(
            Expected("input_global_scale", Role.GLOBAL_SCALE, ("F32",), ((1,), ()), ("-",), "[1]")
        )
    return tuple(tensors)


def _modelopt_nvfp4(scheme: Scheme, n: Dim, k: Dim) -> tuple[Expected, ...]:
    half = None if k is None else ceil(k / 2)
    tensors = (
        Expected("weight", Role.WEIGHT, ("U8",), ((n, half),), ("N", "K"), "[N, K/2]"),
        Expected(
            "weight_scale",
            Role.SCALE,
            (*FP8_TYPES, *FLOATS),  # a wider float is cast to the float8 that it was
            ((n, groups(scheme, k)),),
            ("N", "K"),
            f"[N, K/{scheme.group_size}]",
        ),
        Expected("weight_scale_2", Role.GLOBAL_SCALE, ("F32",), ((), (1,)), (), SCALAR),
    )
    if scheme.activations is not None:
        return (*tensors, *_input_scale(scheme))
    # Read and dropped for weight-only checkpoints (modelopt.py _DropInputScale).
    dropped = Expected(
        "input_scale", Role.INPUT_SCALE, FLOATS, ((), (1,)), (), SCALAR, required=False
    )
    return (*tensors, dropped)


def _quark_int4(scheme: Scheme, n: Dim, k: Dim) -> tuple[Expected, ...]:
    g, words = groups(scheme, k), _words(n, 4)
    group = f"K/{scheme.group_size}"
    return (
        Expected("weight", Role.WEIGHT, ("I32",), ((k, words),), ("K", "N"), "[K, N/8]"),
        Expected("weight_scale", Role.SCALE, FLOATS, ((g, n),), ("K", "N"), f"[{group}, N]"),
        Expected(
            "weight_zero_point",
            Role.ZERO_POINT,
            ("I32",),
            ((g, words),),
            ("K", "N"),
            f"[{group}, N/8]",
            required=not scheme.symmetric,
        ),
    )


def _quark_w4a8(scheme: Scheme, n: Dim, k: Dim) -> tuple[Expected, ...]:
    """Experts only (quark_moe.py QuarkW4A8Fp8MoEMethod)."""
    weight, outer, inner = Role.WEIGHT, Role.SCALE, Role.GLOBAL_SCALE
    return (
        Expected("weight", weight, ("I32", "U32"), ((n, _words(k, 4)),), ("N", "K"), "[N, K/8]"),
        Expected("weight_scale", outer, FLOATS, ((), (1,)), (), SCALAR),
        Expected("weight_scale_2", inner, FLOATS, ((n,), (n, 1)), ("N",), "[N]"),
        *_input_scale(scheme),
    )


_PAYLOADS = {(256, 2): (74, 66), (32, 8): (34,)}  # (values, bits) → bytes of a block


def _ggml(scheme: Scheme, n: Dim, k: Dim) -> Expected:
    """Blocks of ggml as ModelOpt writes them (modelopt_block_quant.py)."""
    size = scheme.group_size or 32
    blocks = None if k is None else k // size
    shapes = tuple((n, blocks, b) for b in _PAYLOADS.get((size, scheme.bits), (34,)))
    formula = f"[N, K/{size}, {shapes[0][2]}]"
    return Expected("weight", Role.WEIGHT, ("U8",), shapes, ("N", "K", "-"), formula)


def _gpt_oss(n: Dim, k: Dim) -> tuple[Expected, ...]:
    """Experts side by side on the first axis, in blocks of 32 values (models/gpt_oss.py)."""
    both = None if n is None else 2 * n
    n_blocks, k_blocks = (None if x is None else x // 32 for x in (n, k))
    weight, scale, byte = Role.WEIGHT, Role.SCALE, ("U8",)
    up, down = ("-", "N", "K"), ("-", "K", "N")
    return (
        Expected(
            "gate_up_proj_blocks",
            weight,
            byte,
            ((None, both, k_blocks, 16),),
            (*up, "-"),
            "[E, 2N, K/32, 16]",
        ),
        Expected(
            "gate_up_proj_scales", scale, byte, ((None, both, k_blocks),), up, "[E, 2N, K/32]"
        ),
        Expected(
            "down_proj_blocks",
            weight,
            byte,
            ((None, k, n_blocks, 16),),
            (*down, "-"),
            "[E, K, N/32, 16]",
        ),
        Expected("down_proj_scales", scale, byte, ((None, k, n_blocks),), down, "[E, K, N/32]"),
        _bias("gate_up_proj_bias", both, "N", "[E, 2N]"),
        _bias("down_proj_bias", k, "K", "[E, K]"),
    )


def _bias(leaf: str, length: Dim, axis: str, formula: str) -> Expected:
    """A bias of all experts; its absence is no matter of quantization."""
    shapes, axes = ((None, length),), ("-", axis)
    return Expected(leaf, Role.BIAS, FLOATS, shapes, axes, formula, required=False)


def _mx(scheme: Scheme, n: Dim, k: Dim) -> tuple[Expected, ...]:
    # The E8M0 exponents go into a uint8 parameter; a file that types them F8_E8M0 is cast by value
    # (1.0 becomes 1, not 127), so only U8 holds what is meant.
    rows = scheme.block[0] if scheme.block else 1
    high = None if n is None else ceil(n / rows)
    per = f"[N/{rows}, K/32]" if scheme.block else "[N, K/32]"
    scale = Expected(
        "weight_scale", Role.SCALE, scheme.exponents, ((high, groups(scheme, k)),), ("N", "K"), per
    )
    if scheme.layout is Layout.MXFP8:
        weight = Expected("weight", Role.WEIGHT, FP8_TYPES, ((n, k),), ("N", "K"), "[N, K]")
        return (weight, scale, *_input_scale(scheme))
    if scheme.layout is Layout.OCP_MX:
        wide = None if k is None else k * scheme.bits // 8
        formula = "[N, K/2]" if scheme.bits == 4 else f"[N, K*{scheme.bits}/8]"
        weight = Expected("weight", Role.WEIGHT, ("U8",), ((n, wide),), ("N", "K"), formula)
        return (weight, scale, *_input_scale(scheme))
    half = None if k is None else ceil(k / 2)
    weight = Expected("weight_packed", Role.WEIGHT, ("U8",), ((n, half),), ("N", "K"), "[N, K/2]")
    return (weight, scale)


def _bitsandbytes_4bit(n: Dim, k: Dim) -> tuple[Expected, ...]:
    """A flat weight with its state; `bitsandbytes.state_gaps` knows what of it must be there."""
    half = None if n is None or k is None else ceil(n * k / 2)
    state = tuple(
        Expected(f"weight.{leaf}", Role.STATE, dtypes, ((None,),), ("-",), text, required=False)
        for leaf, dtypes, text in (
            ("absmax", ("F32", "U8"), "[blocks]"),
            ("quant_map", ("F32",), "[16]"),
            ("nested_absmax", ("F32",), "[blocks of blocks]"),
            ("nested_quant_map", ("F32",), "[256]"),
            ("quant_state.bitsandbytes__nf4", ("U8",), "[bytes]"),
            ("quant_state.bitsandbytes__fp4", ("U8",), "[bytes]"),
        )
    )
    weight = Role.WEIGHT
    flat = ((half, 1),)
    return (Expected("weight", weight, ("U8", "I8"), flat, ("-", "-"), "[N*K/2, 1]"), *state)


def _bitsandbytes_int8(n: Dim, k: Dim) -> tuple[Expected, ...]:
    return (
        Expected("weight", Role.WEIGHT, ("I8",), ((n, k),), ("N", "-"), "[N, K]"),
        Expected("SCB", Role.STATE, ("F32",), ((n,),), ("-",), "[N]", required=False),
        Expected("weight_format", Role.STATE, ("U8",), ((), (1,)), (), SCALAR, required=False),
    )


def _torchao(scheme: Scheme, n: Dim, k: Dim) -> tuple[Expected, ...]:
    """The parts of a torchao tensor (quantize_/workflows of torchao 0.18.0).

    How many groups there are is the metadata's business. The zero points came with 0.18 for int8.
    """
    names = {role: f"_weight_{leaf}" for role, leaf in _TORCHAO_PARTS.items()}
    values, dtypes, formula = TORCHAO_VALUES.get(scheme.storage, (0, ("I8",), "tiles"))
    wide = None if k is None or not values else ceil(k / values)
    data = ((n, wide),) if values else ((None,) * 4, (None,) * 2)
    weight = Expected(names[Role.WEIGHT], Role.WEIGHT, dtypes, data, ("N", "K"), formula)
    groups_first = scheme.storage.startswith("Int4")
    lengths: tuple[Shape, ...] = (((None, n) if groups_first else (n, None)),)
    if scheme.strategy is Strategy.TENSOR:
        lengths = ((1, 1), (), (1,))
    of_groups = "[groups, N]" if groups_first else "[N, groups]"
    scale = Expected(names[Role.SCALE], Role.SCALE, FLOATS, lengths, (), of_groups, required=False)
    types = ("I8", "I32", *FLOATS)
    zero = Role.ZERO_POINT
    zeros = Expected(names[zero], zero, types, lengths, (), of_groups, required=False)
    return (weight, scale, zeros)


_TORCHAO_PARTS = {Role.WEIGHT: "qdata", Role.SCALE: "scale", Role.ZERO_POINT: "zero_point"}
# Class → values of K per element of qdata (0 for tiles), types, shape in words.
TORCHAO_VALUES = {
    "Int8Tensor": (1, ("I8",), "[N, K]"),
    "IntxUnpackedToInt8Tensor": (1, ("I8",), "[N, K]"),
    "Float8Tensor": (1, FP8_TYPES, "[N, K]"),
    "Int4Tensor": (2, ("I8", "U8"), "[N, K/2]"),
    "Int4PlainInt32Tensor": (8, ("I32",), "[N, K/8]"),
    "Int4TilePackedTo4dTensor": (0, ("I32",), "[N/8, K/128, 32, 4]"),
}


def _input_scale(scheme: Scheme) -> tuple[Expected, ...]:
    inputs = scheme.activations
    if inputs is None or inputs.dynamic:
        return ()
    types = ("F32", "BF16", "F16")
    name = scheme.input_scale_name
    scale = Expected(name, Role.INPUT_SCALE, types, ((), (1,)), (), SCALAR)
    if inputs.symmetric:
        return (scale,)
    return (
        scale,
        Expected("input_zero_point", Role.INPUT_SCALE, ("I8",), ((), (1,)), (), SCALAR),
    )
