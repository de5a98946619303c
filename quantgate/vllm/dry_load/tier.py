"""What a dry load says as a tier of the report: a verdict, a sentence, facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.findings import DRY_LOAD, Verdict
from quantgate.report.model import TierResult
from quantgate.report.words import plural, target_words
from quantgate.vllm.dry_load.result import DryOutcome
from quantgate.vllm.dry_load.words import WHILE, one_line, rank_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.vllm.dry_load.compare import ComparedLoad
    from quantgate.vllm.dry_load.result import DryLoad

MAX_NAMES = 20

_KINDS = {
    "uninitialised": "never loaded",
    "partial": "loaded in part",
    "dropped": "loaded into nothing",
    "truncated": "cut to size",
    "miscast": "converted to another kind of type",
}
_VERDICTS = {
    DryOutcome.LOADS: Verdict.PASS,
    DryOutcome.FAILS: Verdict.FAIL,
    DryOutcome.SILENT: Verdict.FAIL,
    DryOutcome.UNKNOWN: Verdict.UNVERIFIED,
}


def tier_result(item: ComparedLoad) -> TierResult:
    """The dry load as `schema.json` describes a tier; what is empty stays out of the facts."""
    summary = f"{target_words(item.load.target)}: {_outcome(item.load)}{_beside(item)}"
    facts = {name: value for name, value in _facts(item) if value not in ("", [], None)}
    return TierResult(DRY_LOAD, _VERDICTS[item.load.outcome], summary, facts)


def _outcome(load: DryLoad) -> str:
    rank = rank_words(load)
    match load.outcome:
        case DryOutcome.LOADS if load.post_not_run:
            return "loads; repacking the weights for the kernels was not run."
        case DryOutcome.LOADS:
            return "loads."
        case DryOutcome.SILENT:
            kinds = (
                f"{plural(s.count, 'tensor')} {_KINDS.get(s.kind, s.kind)}" for s in load.silent
            )
            return f"loads without an error{rank}, but wrong: {', '.join(kinds)}."
        case DryOutcome.FAILS:
            when = WHILE.get(load.phase, "").lower()
            said = f": {one_line(load.message)}" if load.message else ""
            return f"stops with {load.exception or 'an error'}{rank} {when}{said}".rstrip(".") + "."
    return f"what vLLM does could not be told: {load.reason or 'no reason was given'}."


def _beside(item: ComparedLoad) -> str:
    if item.agrees is False:
        return (
            " The headers tier says otherwise, so one of the two is wrong: please report it, with "
            "what `quantgate pack` writes."
        )
    return f" The same in plain words: {', '.join(item.rules)}." if item.rules else ""


def _facts(item: ComparedLoad) -> Iterator[tuple[str, Any]]:
    load = item.load
    yield "target", str(load.target)
    yield "with", load.libraries
    yield "outcome", load.outcome.value
    yield "reason", load.reason
    yield "phase", load.phase
    yield "exception", load.exception
    yield "message", one_line(load.message)
    yield "raised at", load.where
    yield "tensor", load.tensor
    if load.target.tensor_parallel > 1 and load.outcome is not DryOutcome.LOADS:
        yield "rank", load.rank
    yield "architecture", load.architecture
    yield "method", load.method
    for fault in load.silent:
        yield fault.kind, fault.count
        yield f"{fault.kind}, names", list(fault.names[:MAX_NAMES])
    yield "post-processing", load.post
    yield "post-processing not run for", list(load.post_not_run)
    yield "agrees with headers", item.agrees
    yield "rules", list(item.rules)
    yield "log", list(load.log)
