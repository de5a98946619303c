"""Which GPU generation a scheme needs, and what vLLM's CPU platform has no kernel for.

Source: vLLM 0.33.0, `get_min_capability` of the methods and of the compressed-tensors schemes,
marlin_utils.py (GPTQ's effective minimum), vllm/platforms/cpu.py and kernels/linear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.quantization.scheme import Layout
from quantgate.targets import NEWEST
from quantgate.vllm.facts import nearest
from quantgate.vllm.scheme_classes import class_minimums

if TYPE_CHECKING:
    from quantgate.quantization.scheme import Scheme
    from quantgate.targets import Target

# Everything vLLM quantizes needs Turing; on a GPU older than Ada an FP8 W8A8 layer runs as W8A16.
_MINIMUM = {Layout.MXFP4: 80}
_DEFAULT = 75
_NO_CPU_KERNEL = {
    Layout.NVFP4: "Failed to find a kernel that can implement the NVFP4 linear layer",
    Layout.MODELOPT_NVFP4: "Failed to find a kernel that can implement the NVFP4 linear layer",
    Layout.MXFP4: "Failed to find a kernel that can implement the MXFP4 linear layer",
    Layout.MXFP8: "Failed to find a kernel that can implement the MXFP8 linear layer",
}
_HUMMING = (0, 23)
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
        needed.append(min(class_minimums(scheme, known), default=0))
    return max(needed)


def cpu_error(scheme: Scheme) -> str:
    """The error that vLLM's CPU platform raises for a scheme, empty where it has a kernel."""
    if scheme.layout in _NO_CPU_KERNEL:
        return _NO_CPU_KERNEL[scheme.layout]
    if scheme.layout in {Layout.GPTQ, Layout.PACKED} and scheme.bits != 4:
        return _PACKED_ERROR
    if scheme.layout is Layout.FP8 and scheme.activations is None:
        return "No kernel for weight-only FP8 on a CPU"
    return ""


def other_gpu(scheme: Scheme, target: Target) -> str:
    """What a scheme runs on where that is not the target's GPU, else empty.

    4-bit integers with FP8 inputs are taken on compute capability 90 exactly, in all releases
    (_is_fp8_w4a8_sm90). Those with INT8 inputs, one value per byte, had a kernel only for Arm CPUs
    until HummingLinearKernel came with 0.23, for which errors are reported all the same.
    Quark's W4A8 experts ask for AITER (quark_moe.py).
    """
    capability, cpu = target.capability, target.gpu == "cpu"
    inputs = scheme.activations
    if scheme.layout is Layout.QUARK_W4A8:
        return "an AMD GPU with AITER" if target.gpu not in {"", "rocm"} else ""
    if inputs is None or scheme.type != "int":
        return ""
    if inputs.type == "float" and scheme.layout is Layout.PACKED:
        return "sm_90, and no other" if cpu or capability not in {None, 90} else ""
    bytes_of_four = scheme.layout is Layout.INT8 and scheme.bits == 4
    too_early = target.version < _HUMMING and capability is not None
    return "a CPU, or vLLM 0.27 or newer" if bytes_of_four and too_early else ""
