"""From an exception to an answer: did vLLM refuse the model, or could the load not be tried?"""

from __future__ import annotations

from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from quantgate.vllm.children.inside.blame import (
    UNTOLD,
    lost_peer,
    not_the_model,
    points_elsewhere,
)
from quantgate.vllm.children.inside.errors import chain, described

if TYPE_CHECKING:
    from collections.abc import Iterable

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


class CannotLook(Exception):  # noqa: N818  told as a reason
    """The model is loaded, and a question of the smoke load's own could not be answered."""


def failure(error: BaseException, phase: str) -> dict[str, Any]:
    """The result of a load that ended with an exception: `fails`, or `unknown` with a reason.

    It is `elsewhere` where the cause is in the log of another process, which this one cannot read.
    """
    causes = list(chain(error))
    raised = [(_kind(e), str(e)) for e in causes]
    ours = isinstance(error, CannotLook)
    reason = str(error) if ours else not_the_model(raised)
    known = ours or not_the_model([pair for pair in raised if not lost_peer(*pair)])
    elsewhere = not known and any(points_elsewhere(message) for _, message in raised)
    if elsewhere:
        reason = reason or UNTOLD
    functions = [f.name for e in reversed(causes) for f in extract_tb(e.__traceback__)]
    return {
        "outcome": "unknown" if reason else "fails",
        "reason": reason,
        "elsewhere": elsewhere,
        "phase": phase_of(functions) if phase == "load" else phase,
        **described(error),
    }


def phase_of(functions: Iterable[str]) -> str:
    """What vLLM was at in these functions, the innermost last."""
    found = [_PHASES[name] for name in functions if name in _PHASES]
    return found[-1] if found else "load"


def _kind(error: BaseException) -> str:
    """The class, or the one of Python's that says more of the machine than one derived from it."""
    known = (k.__name__ for k in (MemoryError, ImportError) if isinstance(error, k))
    return next(known, type(error).__name__)
