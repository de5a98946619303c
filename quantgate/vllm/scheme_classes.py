"""Which classes of vLLM's take a scheme, and which releases have them.

Source: layers/quantization/compressed_tensors of the releases with facts: the classes under
schemes/, and _get_scheme_from_parts for what they are asked to take; for other methods as noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.quantization.scheme import Layout, Strategy
from quantgate.vllm.facts import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.quantization.scheme import Scheme
    from quantgate.vllm.facts import ReleaseFacts

# W8A8 in FP8 falls back to W8A16.
_CLASSES = {
    Layout.FP8: ("W8A8Fp8", "W8A16Fp8"),
    Layout.NVFP4: ("W4A4Fp4", "W4A16Fp4"),
    Layout.MXFP4: ("W4A4Mxfp4", "W4A16Mxfp4", "W4A8Mxfp4"),
    Layout.MXFP8: ("W8A8Mxfp8",),
}
# _is_fp8_w8a8 of 0.10.2 knows scales per tensor and per channel only.
_FP8_BLOCKS = (0, 11)
_QUARK_CLASSES = {
    Layout.INT8: ("W8A8Int8",),
    Layout.FP8: ("W8A8Fp8",),
    Layout.MODELOPT_NVFP4: ("NVFP4",),
    Layout.OCP_MX: ("OCP_MX", "W4A4MXFP4"),
    Layout.QUARK_INT4: ("W4A16Int4",),
}
_MXFP4_BITS = 4  # the first releases had a class of Quark's for these alone
# 0.11.2 asked for torchao 0.14, which named the parts of a tensor in another way (weight_utils.py).
_FLATTENED = (0, 13)
_ANY_WIDTH = (0, 30)  # inc_wna16_scheme.py CUDA_HUMMING_SUPPORTED_BITS
_MARLIN_ONLY = (0, 23)  # before, inc.py fell back to ExLlama's kernels
# WNA16 took 4 and 8 bits only, and asymmetric ones of these only for longer
# (compressed_tensors_wNa16.py WNA16_SUPPORTED_TYPES_MAP, WNA16_ZP_SUPPORTED_TYPES_MAP).
_ANY_BITS = (0, 27)
# compressed_tensors_moe.py asserted symmetric weights for packed experts of every kernel.
_ASYMMETRIC_EXPERTS = (0, 23)
_ANY_BITS_ASYMMETRIC = (0, 32)


def has_scheme(
    scheme: Scheme, release: str, method: str = "compressed-tensors", *, experts: bool = False
) -> bool:
    """Whether a release has any class, kernel or loader for a scheme of these four methods."""
    known = nearest(release)
    if method in {"auto-round", "inc"}:
        return _has_width(scheme, known.version)
    if method == "torchao":
        return known.version >= _FLATTENED
    if method == "quark":
        classes = _quark_classes(scheme)
        there = known.schemes.get("quark", {})
        return not classes or any(f"Quark{name}" in there for name in classes)
    if experts and scheme.layout is Layout.PACKED and not scheme.symmetric:
        return known.version >= _ASYMMETRIC_EXPERTS
    if scheme.layout is Layout.FP8 and scheme.block is not None and known.version < _FP8_BLOCKS:
        return False
    if not _classes(scheme):
        return True
    return any(True for _ in class_minimums(scheme, known)) and _takes_bits(scheme, known)


def _has_width(scheme: Scheme, version: tuple[int, ...]) -> bool:
    """Whether AutoRound's integers of a width have a kernel; 5 to 7 bits are new altogether."""
    if scheme.layout not in {Layout.GPTQ, Layout.AWQ} or scheme.bits in {4, 8}:
        return True
    exllama = scheme.layout is Layout.GPTQ and scheme.bits in {2, 3}
    return version >= _ANY_WIDTH or (exllama and version < _MARLIN_ONLY)


def _quark_classes(scheme: Scheme) -> tuple[str, ...]:
    if scheme.layout is Layout.FP8 and scheme.strategy is Strategy.BLOCK:
        return ("W8A8Fp8PerBlock",)
    if scheme.layout is Layout.OCP_MX and scheme.bits != _MXFP4_BITS:
        return ("OCP_MX",)
    return _QUARK_CLASSES.get(scheme.layout, ())


def class_minimums(scheme: Scheme, known: ReleaseFacts) -> Iterator[int]:
    """What the classes ask for that can take the scheme; one that fits the GPU is enough."""
    there = known.schemes.get("compressed_tensors", {})
    for name in _classes(scheme):
        value = there.get(f"CompressedTensors{name}")
        if isinstance(value, int):
            yield value
        elif isinstance(value, dict):
            yield min(r["value"] for r in value["returns"])


def _classes(scheme: Scheme) -> tuple[str, ...]:
    inputs = scheme.activations
    if scheme.layout is Layout.INT8:
        return ("W4A8Int",) if scheme.bits == 4 else ("W8A8Int8",)
    if scheme.layout is not Layout.PACKED:
        return _CLASSES.get(scheme.layout, ())
    if inputs is None:
        return ("WNA16",)
    if inputs.type == "float":
        return ("W4A8Fp8",)
    if not inputs.dynamic:
        return ("WNA8O8Int",)
    return ("WNA4Int",) if inputs.bits == 4 else ("WNA8Int",)


def _takes_bits(scheme: Scheme, known: ReleaseFacts) -> bool:
    if scheme.layout is not Layout.PACKED:
        return True
    if not scheme.symmetric and (scheme.bits not in {4, 8} or scheme.activations is not None):
        return known.version >= _ANY_BITS_ASYMMETRIC
    return scheme.bits in {4, 8} or known.version >= _ANY_BITS
