"""Whose fault an exception is: the model's, or what the machine lacks.

What a bad model can cause is never taken for the machine's: an illegal memory access and a failed
assertion on a GPU may come of its weights, and so may what CUDA's libraries say after them.

The words of vLLM, Triton, Python and of torch's own code were read in their sources. Those of the
CUDA runtime, its libraries and NCCL are the ones that users report: no GPU was at hand to see them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .errors import NEEDS_REMOTE_CODE, REMOTE_CODE

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEMORY = re.compile(
    r"out of memory|[Cc]an't allocate memory|Cannot allocate memory|not enough memory"
    r"|No available memory for the cache|(Free|Available) memory on (device|node)"
    r"|larger than the (maximum|available)"
    r"|KV cache is needed, which is larger|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"
    r"|unable to (open|allocate) shared memory|insufficient shared memory"
)
_DISK = re.compile(r"No space left on device")
# What of the driver, the compiler or vLLM's compiled part is not as it must be. Kernels that are
# made at the first run need a compiler; an operator that no library registered is told by torch so.
_MACHINE = re.compile(
    r"no kernel image is available|invalid device function|driver version is insufficient"
    r"|Found no NVIDIA driver|NVIDIA driver on your system is too old"
    r"|device\(s\) is/are busy or unavailable|no CUDA-capable device|No CUDA GPUs are available"
    r"|uncorrectable ECC error|unsupported display driver|forward compatibility was attempted"
    r"|PTX was compiled with an unsupported toolchain|CUDNN_STATUS_NOT_INITIALIZED"
    r"|\b0 active drivers"
    r"|Failed to find C compiler|(Could not|Unable to) find nvcc|CUDA_HOME environment variable"
    r"|Ninja is required"
    r"|No such file or directory: '([^']*/)?(ninja|nvcc|ptxas|cc|gcc|c\+\+|g\+\+|clang|clang\+\+)'"
    r"|'_OpNamespace' '\w+' object has no attribute"
)
_LIMITS = re.compile(
    r"EADDRINUSE|[Aa]ddress already in use|can't start new thread|Too many open files"
    r"|Not? enough allowed NUMA nodes"
)
# What is said of, or by, a process whose other one has gone.
_PEERS = re.compile(
    r"NCCL error|nccl\w+Error|Connection (closed|reset) by peer|Broken pipe|Connection refused"
    r"|Socket Timeout|/gloo/transport/|RPC call to .+ timed out|^cancelled$",
    re.MULTILINE,
)
_PEER_ERRORS = frozenset(
    (
        *("DistBackendError", "DistNetworkError", "DistStoreError", "BrokenPipeError"),
        *("ConnectionResetError", "ConnectionRefusedError", "TimeoutError"),
    )
)
# vLLM's v1/executor/multiproc_executor.py, v1/engine/utils.py and v1/engine/exceptions.py, and the
# broadcast queue that is cancelled when a process has died (0.10 to 0.33).
_ELSEWHERE = re.compile(
    r"[Ss]ee (the )?(stack trace|root cause)|stack trace above for the root cause"
    r"|RPC call to .+ timed out|^Executor failed\.$|^cancelled$",
)
UNTOLD = "a process of vLLM's failed, and its log does not say why"


def not_the_model(raised: Sequence[tuple[str, str]]) -> str:
    """Why exceptions say nothing about the model, one clause, or empty if they do.

    Args:
        raised: Class and message of an exception and of what it came of, the outermost first.
    """
    kinds = {kind for kind, _ in raised}
    text = "\n".join(message for _, message in raised)
    if any("OutOfMemory" in k for k in kinds) or "MemoryError" in kinds or _MEMORY.search(text):
        return "there is too little memory for it here"
    if _DISK.search(text):
        return "there is too little room on the disk"
    if REMOTE_CODE.search(text):
        return NEEDS_REMOTE_CODE
    if line := _line(_LIMITS, text):
        return f"this system does not give vLLM what it asks for: {line}"
    if line := _line(_MACHINE, text):
        return f"the driver, the compiler or vLLM's compiled part is not as it must be here: {line}"
    if kinds & {"ImportError", "ModuleNotFoundError"}:
        return f"a library is missing here: {raised[0][1]}"
    if peers := [pair for pair in raised if lost_peer(*pair)]:
        kind, message = peers[0]
        return (
            f"vLLM's processes could not talk to each other here: {kind}: {message}".splitlines()[0]
        )
    return ""


def machine(text: str) -> str:
    """The line that tells what of the machine is not as it must be, or empty."""
    return _line(_MACHINE, text) or _line(_LIMITS, text)


def _line(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return next(line for line in text.splitlines() if found[0] in line) if found else ""


def lost_peer(kind: str, message: str) -> bool:
    """Whether an exception is only of another process that has gone, or cannot be reached."""
    return kind in _PEER_ERRORS or _PEERS.search(message) is not None


def points_elsewhere(message: str) -> bool:
    """Whether an exception of vLLM's only says that another process failed."""
    return _ELSEWHERE.search(message) is not None
