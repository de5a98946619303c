"""Whether vLLM's compiled modules can be imported here; vLLM itself only logs it if not."""

from __future__ import annotations

import logging

from quantgate.vllm.children.inside.release import Refused

# vllm/platforms/cuda.py and cpu.py, `import_kernels`, of 0.27 to 0.33. Other platforms say the same
# of modules that they may do without.
_LOST = "Failed to import from vllm."
_KINDS = frozenset({"cpu", "cuda"})


class _Heard(logging.Handler):
    """Keeps what vLLM's platforms say while they import."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def compiled_part(kind: str) -> None:
    """Import what every layer needs, before a model is blamed for its absence.

    Raises:
        Refused: The compiled part cannot be used, for want of a library of the system mostly.
    """
    if kind not in _KINDS:
        return
    heard = _Heard()
    logger = logging.getLogger("vllm")
    logger.addHandler(heard)
    try:
        import vllm._custom_ops  # noqa: F401
    finally:
        logger.removeHandler(heard)
    lost = [m for m in heard.messages if m.startswith(_LOST)]
    if lost:
        raise Refused(f"vLLM's compiled part cannot be used here: {lost[0]}")
