"""From an exception to an answer: did vLLM refuse, or could the dry load not tell?"""

from __future__ import annotations

import re
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from .reasons import NotSimulated, StubCalled, UnknownType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .headers import HeaderReader

MAX_MESSAGE = 2000

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
_REMOTE_CODE = re.compile(r"trust_remote_code|trust-remote-code|remote code|custom code")


def failure(error: BaseException, phase: str, reader: HeaderReader | None) -> dict[str, Any]:
    """The result of a load that ended with an exception: `fails`, or `unknown` with a reason."""
    said: dict[str, Any] = {
        "phase": phase,
        "exception": type(error).__name__,
        "message": str(error)[:MAX_MESSAGE],
        "where": _where(error),
        "tensor": _tensor(error, reader) if reader and phase == "load" else "",
    }
    reason = uncertain(error, phase)
    return {**said, "outcome": "unknown" if reason else "fails", "reason": reason}


def uncertain(error: BaseException, phase: str) -> str:
    """Why this exception is no answer of vLLM's, or empty if it is one."""
    causes = list(_chain(error))
    texts = [str(e) for e in causes]
    if any(map(_REMOTE_CODE.search, texts)) and phase in {"config", "init"}:
        return "it needs remote code, which is refused and never run"
    if any(isinstance(e, NotSimulated | UnknownType | StubCalled) for e in causes):
        return texts[0]
    if isinstance(error, MemoryError) or any(map(_NO_ROOM.search, texts)):
        return "the machine has too little memory"
    if isinstance(error, ImportError):
        return f"a library is missing here: {texts[0]}"
    if any("failed to be inspected" in t for t in texts):
        return "the module of its class cannot be imported here, most likely for want of a library"
    if any(map(_OURS.search, texts)):
        return "vLLM came to something that needs a real GPU or real values"
    if any(map(_THIS_CPU.search, texts)):
        return "it depends on the instruction set of the CPU, and this one's was asked"
    if phase == "post" and "backend" in texts[0]:
        return "which kernels a GPU build has is not simulated"
    return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(20):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__


def _where(error: BaseException) -> str:
    """The innermost line of vLLM's, such as `linear.py:412`."""
    frames = extract_tb(error.__traceback__)
    own = [f for f in frames if "/vllm/" in f.filename] or list(frames)
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


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
