"""What a smoke load says as a tier of the report: a verdict, a sentence, facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.findings import SMOKE, Severity, Verdict
from quantgate.report.model import TierResult
from quantgate.report.words import size, target_words
from quantgate.vllm.dry_load.compare import explaining
from quantgate.vllm.smoke.result import SmokeOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quantgate.findings import Finding
    from quantgate.vllm.smoke.result import SmokeLoad

MAX_NAMES = 20
MAX_MESSAGE = 600

_PHASES = {
    "config": "while it reads the config",
    "init": "while it builds the model",
    "load": "while it loads the weights",
    "post": "while it prepares the loaded weights",
    "warmup": "in its first run",
    "tokenizer": "while it reads the tokenizer",
    "score": "while it reads a text",
    "generate": "while it speaks",
}
_VERDICTS = {
    SmokeOutcome.WORKS: Verdict.PASS,
    SmokeOutcome.FAILS: Verdict.FAIL,
    SmokeOutcome.SILENT: Verdict.FAIL,
    SmokeOutcome.UNKNOWN: Verdict.UNVERIFIED,
}


def tier_result(load: SmokeLoad, findings: Sequence[Finding] = ()) -> TierResult:
    """The smoke load as `schema.json` describes a tier; what is empty stays out of the facts.

    Args:
        load: What was tried.
        findings: What the rules say of the same model.
    """
    held = [f for f in findings if not f.targets or str(load.target) in f.targets]
    errors = [f for f in held if f.severity is Severity.ERROR and not f.unverified]
    rules = explaining(load.outcome, load.not_loaded, errors) if load.outcome.is_fault else ()
    beside = _beside(load, rules, contradicted=bool(errors))
    said = f"{_outcome(load)}{beside}"
    # Which vLLM there is, only a child that was ready has told.
    asked = f"{target_words(load.target)}: {said}"
    summary = asked if load.libraries else f"{said[0].upper()}{said[1:]}"
    facts = {n: v for n, v in _facts(load, rules) if v not in ("", [], None, 0)}
    return TierResult(SMOKE, _VERDICTS[load.outcome], summary, facts)


def _outcome(load: SmokeLoad) -> str:
    match load.outcome:
        case SmokeOutcome.WORKS:
            notes = f" ({'; '.join(load.notes)})" if load.notes else ""
            return f"loads, and what it says is sane{notes}."
        case SmokeOutcome.SILENT:
            return f"loads without an error, but talks nonsense: {'; '.join(load.complaints)}."
        case SmokeOutcome.FAILS:
            when = _PHASES.get(load.phase, "")
            said = f": {_one_line(load.message)}" if load.message else ""
            return f"stops with {load.exception or 'an error'} {when}{said}".rstrip(". ") + "."
    return f"what vLLM does could not be told: {load.reason or 'no reason was given'}.".replace(
        "..", "."
    )


def _beside(load: SmokeLoad, rules: Sequence[str], *, contradicted: bool) -> str:
    if load.outcome is SmokeOutcome.WORKS and contradicted:
        return (
            " The headers tier says that it would not, so one of the two is wrong: please report "
            "it, with what `quantgate pack` writes."
        )
    return f" The same in plain words: {', '.join(rules)}." if rules else ""


def _facts(load: SmokeLoad, rules: Sequence[str]) -> Iterator[tuple[str, Any]]:
    yield "target", str(load.target)
    yield "device", load.device
    yield "libraries", load.libraries
    yield "outcome", load.outcome.value
    yield "reason", load.reason
    yield "phase", load.phase
    yield "exception", load.exception
    yield "message", _one_line(load.message)
    yield "raised at", load.where
    yield "complaints", list(load.complaints)
    yield "notes", list(load.notes)
    yield "never loaded", list(load.not_loaded[:MAX_NAMES])
    yield "rules", list(rules)
    yield "architecture", load.architecture
    yield "method", load.method
    yield "computed in", load.dtype
    yield "layers", list(map(str, load.layers))
    yield from load.compared
    if load.speech is not None and load.speech.has_words:
        yield "answers", [a.text for a in load.speech.answers]
    yield "weights in memory", size(load.weight_bytes) if load.weight_bytes else ""
    yield "in use on the GPU", size(load.device_bytes) if load.device_bytes else ""
    yield "most memory held", size(load.peak_bytes) if load.peak_bytes else ""
    yield "seconds to load", load.load_seconds
    yield "tokens per second", load.tokens_per_second
    yield "log", list(load.log)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_MESSAGE]
