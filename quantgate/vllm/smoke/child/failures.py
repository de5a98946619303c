"""From an exception to an answer: did vLLM refuse the model, or could the load not be tried?"""

from __future__ import annotations

import re
from traceback import extract_tb
from typing import Any

from quantgate.vllm.children.inside.errors import NEEDS_REMOTE_CODE, REMOTE_CODE, chain, described

# The functions of vLLM's that tell what it was at, innermost ones last.
_PHASES = {
    "create_engine_config": "config",
    "initialize_model": "init",
    "load_weights": "load",
    "process_weights_after_loading": "post",
    "profile_run": "warmup",
    "determine_available_memory": "warmup",
    "initialize_from_config": "warmup",
    "get_tokenizer": "tokenizer",
    "cached_tokenizer_from_config": "tokenizer",
}
_MEMORY = re.compile(
    r"out of memory|[Cc]an't allocate memory|Cannot allocate memory|not enough memory"
    r"|No available memory for the cache|Free memory on device|larger than the (maximum|available)"
    r"|KV cache is needed, which is larger"
)
# What of the driver, the compiler or vLLM's compiled part is not as it must be. Kernels that are
# made at the first run need a compiler; an operator that no library registered is told by torch so.
_MACHINE = re.compile(
    r"no kernel image is available|invalid device function|driver version is insufficient"
    r"|Found no NVIDIA driver|NCCL error|Failed to find C compiler|Could not find nvcc"
    r"|Ninja is required|'_OpNamespace' '\w+' object has no attribute"
)
_DISK = re.compile(r"No space left on device")


def failure(error: BaseException, phase: str) -> dict[str, Any]:
    """The result of a load that ended with an exception: `fails`, or `unknown` with a reason."""
    causes = list(chain(error))
    reason = _uncertain(causes)
    return {
        "outcome": "unknown" if reason else "fails",
        "reason": reason,
        "phase": _phase(causes) if phase == "load" else phase,
        **described(error),
    }


def _uncertain(causes: list[BaseException]) -> str:
    """Why this exception says nothing about the model, or empty if it does."""
    text = "\n".join(map(str, causes))
    if any("OutOfMemory" in type(e).__name__ or isinstance(e, MemoryError) for e in causes):
        return "there is too little memory for it here"
    if _MEMORY.search(text):
        return "there is too little memory for it here"
    if _DISK.search(text):
        return "there is too little room on the disk"
    if REMOTE_CODE.search(text):
        return NEEDS_REMOTE_CODE
    if (found := _MACHINE.search(text)) is not None:
        line = next(line for line in text.splitlines() if found[0] in line)
        return f"the driver, the compiler or vLLM's compiled part is not as it must be here: {line}"
    if any(isinstance(e, ImportError) for e in causes):
        return f"a library is missing here: {causes[0]}"
    return ""


def _phase(causes: list[BaseException]) -> str:
    names = [frame.name for error in reversed(causes) for frame in extract_tb(error.__traceback__)]
    found = [_PHASES[name] for name in names if name in _PHASES]
    return found[-1] if found else "load"
