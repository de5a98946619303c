"""Which GPU generation a scheme needs, and what vLLM's CPU platform has no kernel for.

Source: vLLM 0.33.0, `get_min_capability` of the methods and of the compressed-tensors schemes,
marlin_utils.py (GPTQ's effective minimum), vllm/platforms/cpu.py and kernels/linear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.quantization.scheme import Layout

if TYPE_CHECKING:
    from quantgate.quantization.scheme import Scheme

# Everything vLLM quantizes needs Turing; on a GPU older than Ada an FP8 W8A8 layer runs as W8A16.
_MINIMUM = {Layout.MXFP4: 80}
_DEFAULT = 75
_NO_CPU_KERNEL = {
    Layout.NVFP4: "Failed to find a kernel that can implement the NVFP4 linear layer",
    Layout.MODELOPT_NVFP4: "Failed to find a kernel that can implement the NVFP4 linear layer",
    Layout.MXFP4: "Failed to find a kernel that can implement the MXFP4 linear layer",
    Layout.MXFP8: "Failed to find a kernel that can implement the MXFP8 linear layer",
}
_PACKED_ERROR = "Failed to find a kernel that can implement the WNA16 linear layer"


def minimum_capability(scheme: Scheme) -> int:
    """The least compute capability, such as 75 for sm_75; 0 for a dense layer."""
    if scheme.layout is Layout.DENSE:
        return 0
    return max(_MINIMUM.get(scheme.layout, _DEFAULT), scheme.capability)


def cpu_error(scheme: Scheme) -> str:
    """The error that vLLM's CPU platform raises for a scheme, empty where it has a kernel."""
    if scheme.layout in _NO_CPU_KERNEL:
        return _NO_CPU_KERNEL[scheme.layout]
    if scheme.layout in {Layout.GPTQ, Layout.PACKED} and scheme.bits != 4:
        return _PACKED_ERROR
    if scheme.layout is Layout.FP8 and scheme.activations is None:
        return "No kernel for weight-only FP8 on a CPU"
    return ""
