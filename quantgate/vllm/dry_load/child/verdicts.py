"""From an exception to an answer: did vLLM refuse, or could the dry load not tell?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from quantgate.vllm.children.inside.blame import machine
from quantgate.vllm.children.inside.errors import NEEDS_REMOTE_CODE, REMOTE_CODE, chain, described

from .reasons import NotSimulated, StubCalled, UnknownType

if TYPE_CHECKING:
    from .headers import HeaderReader

# What torch and vLLM say where a value, a driver or a library is missing that a GPU machine has.
_OURS = re.compile(
    r"[Mm]eta tensor|device=meta|device meta|'meta' device|Meta backend"
    r"|with arguments from the 'Meta'|Cannot copy out of meta"
    r"|must be on (the )?(gpu|GPU|cuda|CUDA)"
    r"|no kernel image|NVIDIA driver|CUDA driver|not compiled with CUDA|no CUDA-capable|libcuda"
    r"|0 active drivers|[Hh]umming is not installed|flashinfer (is )?not"
    r"|[Tt]riton (is )?(not|missing|unavailable)"
)
_NO_ROOM = re.compile(r"can't allocate memory|[Cc]annot allocate memory|No space left")
_THIS_CPU = re.compile(r"requires AMX|requires AVX|AMX tile support")


def failure(error: BaseException, phase: str, reader: HeaderReader | None) -> dict[str, Any]:
    """The result of a load that ended with an exception: `fails`, or `unknown` with a reason."""
    said: dict[str, Any] = {
        "phase": phase,
        **described(error),
        "tensor": _tensor(error, reader) if reader and phase == "load" else "",
    }
    reason = uncertain(error, phase)
    return {**said, "outcome": "unknown" if reason else "fails", "reason": reason}


def uncertain(error: BaseException, phase: str) -> str:
    """Why this exception is no answer of vLLM's, or empty if it is one."""
    causes = list(chain(error))
    texts = [str(e) for e in causes]
    if any(map(REMOTE_CODE.search, texts)) and phase in {"config", "init"}:
        return NEEDS_REMOTE_CODE
    if any(isinstance(e, NotSimulated | UnknownType | StubCalled) for e in causes):
        return texts[0]
    if any(isinstance(e, MemoryError) for e in causes) or any(map(_NO_ROOM.search, texts)):
        return "the machine has too little memory"
    if isinstance(error, ImportError):
        return f"a library is missing here: {texts[0]}"
    if any("failed to be inspected" in t for t in texts):
        return "the module of its class cannot be imported here, most likely for want of a library"
    if any(map(_OURS.search, texts)):
        return "vLLM came to something that needs a real GPU or real values"
    if line := next(filter(None, map(machine, texts)), ""):
        return f"the machine is not as it must be here: {line}"
    if any(map(_THIS_CPU.search, texts)):
        return "it depends on the instruction set of the CPU, and this one's was asked"
    if phase == "post" and "backend" in texts[0]:
        return "which kernels a GPU build has is not simulated"
    return ""


def _tensor(error: BaseException, reader: HeaderReader) -> str:
    """The checkpoint tensor in hand: the innermost one that a frame holds, or the newest read."""
    import torch

    found = ""
    step = error.__traceback__
    while step is not None:
        for value in step.tb_frame.f_locals.values():
            if isinstance(value, torch.Tensor):
                names = reader.tracker.names_in(value)
                if len(names) == 1 and not isinstance(value, torch.nn.Parameter):
                    found = next(iter(names))
        step = step.tb_next
    return found or reader.last
