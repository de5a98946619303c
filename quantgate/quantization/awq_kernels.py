"""AWQ weights that were packed for another kernel than GEMM, told by their shapes.

AutoAWQ packs for the kernel named by `version` (awq/modules/linear of AutoAWQ 0.2.9: gemv.py,
gemv_fast.py, marlin.py), llm-awq since its second version like GEMVFast. vLLM reads the layout of
GEMM only and never looks at `version` (layers/quantization/awq.py and awq_marlin.py up to 0.23,
auto_awq.py from 0.27 to 0.33). With N = out_features, K = in_features, g = group_size and
W = ceil(K / g / 8), rounded up to an even number at g = 64 and to a multiple of 4 at g = 32:

=========  ================  =============  ==========================  ==================
version    qweight           qzeros         scales                      scaled_zeros
=========  ================  =============  ==========================  ==================
gemm       int32 [K, N/8]    [K/g, N/8]     [K/g, N]                    none
gemv       int32 [N, K/8]    [N, W]         [N, 8W]                     none
gemv_fast  int16 [N/4, K]    none           [8W, N]                     float [8W, N]
marlin     int32 [K/16, 2N]  none           [K/g, N]                    none
=========  ================  =============  ==========================  ==================
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]


class AwqKernel(StrEnum):
    """A kernel whose layout vLLM does not read, in AutoAWQ's word for it."""

    GEMV = "gemv"
    GEMV_FAST = "gemv_fast"
    MARLIN = "marlin"


LAYOUTS = {
    AwqKernel.GEMV: "qweight int32 [N, K/8]",
    AwqKernel.GEMV_FAST: "qweight int16 [N/4, K]",
    AwqKernel.MARLIN: "qweight int32 [K/16, 2N]",
}


def awq_kernel(leaves: Leaves) -> AwqKernel | None:
    """The kernel for which a module was packed; None for GEMM, GPTQ and everything else."""
    dtype, weight = leaves.get("qweight", ("", ()))
    scale = leaves.get("scales", ("", ()))[1]
    if len(weight) != 2 or len(scale) != 2:
        return None
    if dtype == "I16" or (dtype == "I32" and "scaled_zeros" in leaves):
        return AwqKernel.GEMV_FAST
    if dtype != "I32":
        return None
    if "qzeros" not in leaves:
        return AwqKernel.MARLIN if weight[1] == 2 * scale[1] else None
    zero = leaves["qzeros"][1]
    n_first = len(zero) == 2 and weight[0] == scale[0] == zero[0] and scale[1] == 8 * zero[1]
    # With one value per group GEMM and GPTQ have rows of equal number too, and other columns.
    return AwqKernel.GEMV if n_first and weight[1] not in {zero[1], scale[1]} else None
