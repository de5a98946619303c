"""The quantization scheme of one module, whatever the method calls it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Layout(StrEnum):
    """How the values of one module lie in the file. N is out_features, K is in_features."""

    DENSE = "dense"  # weight, a float type, [N, K]
    GPTQ = "gptq"  # qweight int32 [K*b/32, N]: packed along K
    AWQ = "awq"  # qweight int32 [K, N*b/32]: packed along N
    PACKED = "pack-quantized"  # weight_packed int32 [N, K*b/32]: packed along K
    INT8 = "int-quantized"  # weight int8 [N, K]
    FP8 = "float-quantized"  # weight float8 [N, K]
    NVFP4 = "nvfp4-pack-quantized"  # weight_packed uint8 [N, K/2]: packed along K
    MXFP4 = "mxfp4-pack-quantized"  # weight_packed uint8 [N, K/2], scales are E8M0 exponents
    MXFP8 = "mxfp8-quantized"  # weight float8 [N, K], scales are E8M0 exponents
    MODELOPT_NVFP4 = "nvfp4"  # weight uint8 [N, K/2], scaled by weight_scale and weight_scale_2
    OCP_MX = "ocp-mx"  # weight uint8 [N, K*b/8], scales are E8M0 exponents
    QUARK_INT4 = "quark-int4"  # weight int32 [K, N/8]: packed along N
    QUARK_W4A8 = "quark-w4a8"  # weight int32 [N, K/8], scaled by weight_scale and weight_scale_2
    GGML = "ggml-blocks"  # weight uint8 [N, K/block, bytes]: blocks of ggml, scales inside
    GPT_OSS = "gpt-oss-mxfp4"  # all experts of a block; N is their width, K the hidden size
    BNB_4BIT = "bitsandbytes-4bit"  # weight uint8 [N*K/2, 1]: rows lost, blocks run across them
    TORCHAO = "torchao"  # _weight_qdata and others; the class of the tensor says how
    BNB_INT8 = "bitsandbytes-int8"  # weight int8 [N, K], scaled by SCB


class Strategy(StrEnum):
    """Over which elements one scale is shared; the words are those of compressed-tensors."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    GROUP = "group"
    BLOCK = "block"
    TENSOR_GROUP = "tensor_group"
    FLAT = "flat blocks"  # runs of values, wherever a row ends
    TOKEN = "token"  # activations only  # noqa: S105


@dataclass(frozen=True, slots=True)
class Activations:
    """Quantization of a module's inputs."""

    bits: int
    type: str
    strategy: Strategy
    dynamic: bool
    symmetric: bool = True


@dataclass(frozen=True, slots=True)
class Scheme:
    """What one module is declared to be.

    Attributes:
        layout: How its values are stored.
        bits: Bits per weight.
        type: `int` or `float`.
        strategy: What shares a scale.
        group_size: Values of K per scale for `group` and `tensor_group`, otherwise None. A GPTQ or
            AWQ `group_size: -1` is the strategy `channel`.
        block: (rows, columns) per scale for `block`.
        symmetric: No zero points.
        activations: Input quantization, None for weight-only.
        scale_name: Leaf of the weight scale; fp8 block checkpoints call it `weight_scale_inv`.
        scale_rank: Axes of the weight scale where a method writes another number than usual: 1 for
            a channel scale [N], 4 for a block scale [N/rows, 1, K/columns, 1].
        input_scale_name: Leaf of the static input scale.
        zero_points_stored: The format stores zero points whether or not they matter (GPTQ, AWQ).
        exponents: Types that hold the exponents of MX scales.
        storage: torchao's class of the tensor (`Int8Tensor`).
        capability: Least compute capability, where the method asks for more than the layout needs.
    """

    layout: Layout
    bits: int
    type: str = "int"
    strategy: Strategy = Strategy.CHANNEL
    group_size: int | None = None
    block: tuple[int, int] | None = None
    symmetric: bool = True
    activations: Activations | None = None
    scale_name: str = "weight_scale"
    scale_rank: int | None = None
    input_scale_name: str = "input_scale"
    zero_points_stored: bool = False
    exponents: tuple[str, ...] = ("U8",)
    storage: str = ""
    capability: int = 0

    def __str__(self) -> str:
        """Short form for reports: `int4 group 128`, `float8 channel, dynamic activations`."""
        size = {
            Strategy.GROUP: f" {self.group_size}",
            Strategy.TENSOR_GROUP: f" {self.group_size}",
            Strategy.BLOCK: " {}x{}".format(*(self.block or (0, 0))),
        }.get(self.strategy, "")
        asymmetric = "" if self.symmetric else " asymmetric"
        inputs = ""
        if self.activations is not None:
            kind = "dynamic" if self.activations.dynamic else "static"
            inputs = f", {self.activations.type}{self.activations.bits} {kind} activations"
        return f"{self.type}{self.bits} {self.strategy}{size}{asymmetric}{inputs}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Logical size of a module's weight, and which witness says so.

    `n` is out_features, `k` is in_features; None where no witness knows it. `disputed` means that
    another witness contradicts: the sizes may be wrong themselves and settle nothing else.
    """

    n: int | None = None
    k: int | None = None
    witness: str = ""
    disputed: bool = False
