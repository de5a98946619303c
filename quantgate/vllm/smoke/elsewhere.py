"""A failure that another process of vLLM's had, judged by what that process logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.vllm.children.inside.blame import lost_peer, not_the_model, points_elsewhere
from quantgate.vllm.smoke.child.failures import phase_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quantgate.vllm.children.tracebacks import Raised

_ENDED = ("SystemExit", "KeyboardInterrupt")  # of a process that vLLM ended


def root_cause(said: Mapping[str, Any], ends: Sequence[Sequence[Raised]]) -> dict[str, Any]:
    """The child's answer with what was the matter, if the log has it; else as it was.

    A rank that fails takes the others with it, which then complain of one that is gone: these count
    only if there is nothing else. If any of the rest is the machine's fault, nobody knows what the
    model would do; else the first is the cause.

    Args:
        said: The answer of a child that does not know the cause.
        ends: How each process ended, its causes first, as the log has it.
    """
    told = [e for e in ends if e[-1].exception not in _ENDED]
    told = [e for e in told if not points_elsewhere(e[-1].message)]
    told = [e for e in told if not lost_peer(e[-1].exception, e[-1].message)] or told
    if not told:
        return dict(said)
    reasons = [not_the_model([(r.exception, r.message) for r in reversed(e)]) for e in told]
    reason = next(filter(None, reasons), "")
    cause = told[reasons.index(reason)]
    functions = [name for raised in cause for name in raised.functions]
    return {
        **said,
        "outcome": "unknown" if reason else "fails",
        "reason": reason,
        "phase": phase_of(functions) if said.get("phase") == "load" else said.get("phase", ""),
        "exception": cause[-1].exception,
        "message": cause[-1].message,
        "where": cause[-1].where,
    }
