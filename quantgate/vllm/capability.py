"""Which GPU generation a scheme needs, and what vLLM's CPU platform has no kernel for.

Source: vLLM 0.33.0, `get_min_capability` of the methods and of the compressed-tensors schemes,
marlin_utils.py (GPTQ's effective minimum), vllm/platforms/cpu.py and kernels/linear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.quantization.scheme import Layout
from quantgate.targets import NEWEST
from quantgate.vllm.facts import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.quantization.scheme import Scheme
    from quantgate.vllm.facts import ReleaseFacts

# Everything vLLM quantizes needs Turing; on a GPU older than Ada an FP8 W8A8 layer runs as W8A16.
_MINIMUM = {Layout.MXFP4: 80}
_DEFAULT = 75
_NO_CPU_KERNEL = {
    Layout.NVFP4: "Failed to find a kernel that can implement the NVFP4 linear layer",
    Layout.MODELOPT_NVFP4: "Failed to find a kernel that can implement the NVFP4 linear layer",
    Layout.MXFP4: "Failed to find a kernel that can implement the MXFP4 linear layer",
    Layout.MXFP8: "Failed to find a kernel that can implement the MXFP8 linear layer",
}
# The classes of vLLM's compressed-tensors that take a layout; W8A8 in FP8 falls back to W8A16.
_CLASSES = {
    Layout.PACKED: ("WNA16", "WNA4Int", "WNA8Int"),
    Layout.INT8: ("W8A8Int8",),
    Layout.FP8: ("W8A8Fp8", "W8A16Fp8"),
    Layout.NVFP4: ("W4A4Fp4", "W4A16Fp4"),
    Layout.MXFP4: ("W4A4Mxfp4", "W4A16Mxfp4", "W4A8Mxfp4"),
    Layout.MXFP8: ("W8A8Mxfp8",),
}
# Before, `gptq` ran with ExLlama's kernels where Marlin's could not (gptq.py).
_GPTQ_NEEDS_MARLIN = (0, 23)
_PACKED_ERROR = "Failed to find a kernel that can implement the WNA16 linear layer"


def minimum_capability(scheme: Scheme, method: str = "", release: str = NEWEST) -> int:
    """The least compute capability, such as 75 for sm_75; 0 for a dense layer.

    The greatest of what the release asks for: for the method as a whole, for the class of a
    compressed-tensors scheme, and what the kernels of the layout need.
    """
    if scheme.layout is Layout.DENSE:
        return 0
    known = nearest(release)
    needed = [scheme.capability]
    if method == "gptq" and known.version < _GPTQ_NEEDS_MARLIN:
        return max(*needed, known.min_capability(method) or 0)
    needed += [_MINIMUM.get(scheme.layout, _DEFAULT), known.min_capability(method) or 0]
    if method == "compressed-tensors":
        needed.append(min(_class_minimums(scheme, known), default=0))
    return max(needed)


def has_scheme(scheme: Scheme, release: str) -> bool:
    """Whether a release has any class for a compressed-tensors scheme."""
    return bool(list(_class_minimums(scheme, nearest(release)))) or scheme.layout not in _CLASSES


def _class_minimums(scheme: Scheme, known: ReleaseFacts) -> Iterator[int]:
    """What the classes ask for that can take the scheme; one that fits the GPU is enough."""
    there = known.schemes.get("compressed_tensors", {})
    for name in _CLASSES.get(scheme.layout, ()):
        value = there.get(f"CompressedTensors{name}")
        if isinstance(value, int):
            yield value
        elif isinstance(value, dict):
            yield min(r["value"] for r in value["returns"])


def cpu_error(scheme: Scheme) -> str:
    """The error that vLLM's CPU platform raises for a scheme, empty where it has a kernel."""
    if scheme.layout in _NO_CPU_KERNEL:
        return _NO_CPU_KERNEL[scheme.layout]
    if scheme.layout in {Layout.GPTQ, Layout.PACKED} and scheme.bits != 4:
        return _PACKED_ERROR
    if scheme.layout is Layout.FP8 and scheme.activations is None:
        return "No kernel for weight-only FP8 on a CPU"
    return ""
