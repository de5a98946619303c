"""What a smoke load says, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from quantgate.vllm.smoke.divergence import perplexity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.targets import Target

MAX_TEXT = 4000
MAX_ITEMS = 5000


class SmokeOutcome(StrEnum):
    """What vLLM does with the model."""

    WORKS = "works"  # loads, and what it says is sane
    FAILS = "fails"
    SILENT = "silent"  # loads without a word, and talks nonsense
    UNKNOWN = "unknown"  # it could not be tried

    @property
    def is_fault(self) -> bool:
        """Whether the model does not work."""
        return self in {SmokeOutcome.FAILS, SmokeOutcome.SILENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerChoice:
    """What vLLM chose for layers that differ only in their numbers."""

    layers: str
    method: str
    scheme: str
    kernel: str
    count: int

    def __str__(self) -> str:
        parts = [self.method, *filter(None, (self.scheme, self.kernel))]
        return f"{self.layers} × {self.count}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Scored:
    """A text as the model sees it.

    Attributes:
        ids: Its tokens.
        logprobs: Of each token but the first; None where it is no number.
        top: At each of these positions, the likeliest tokens.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float | None, ...]
    top: tuple[Mapping[int, float], ...]

    @property
    def broken(self) -> int:
        """At how many positions a probability is no number."""
        return sum(p is None for p in self.logprobs)

    @property
    def perplexity(self) -> float | None:
        """None where a probability is no number."""
        known = [p for p in self.logprobs if p is not None]
        return perplexity(known) if known and len(known) == len(self.logprobs) else None


@dataclass(frozen=True, slots=True)
class Answer:
    """The continuation of one prompt; `broken` counts tokens whose probability is no number."""

    ids: tuple[int, ...]
    text: str
    broken: int


@dataclass(frozen=True, slots=True)
class Speech:
    """What a model that loaded said.

    Attributes:
        vocabulary: Number of tokens.
        text: The bundled text, scored.
        answers: One per prompt.
        has_words: Whether the model has a tokenizer; without one, text and prompts were tokens
            taken at random.
    """

    vocabulary: int
    text: Scored
    answers: tuple[Answer, ...]
    has_words: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SmokeLoad:
    """The answer for one model. All text in it may come from the model.

    Attributes:
        source: What the user wrote.
        target: The release that is installed, the device, the tensor-parallel size.
        outcome: What vLLM does.
        reason: Why the outcome is unknown, else empty.
        phase: Where it failed: `config`, `init`, `load`, `post`, `warmup`, `tokenizer`, `score`,
            `generate`.
        exception: Its class.
        message: What vLLM said.
        where: The line of vLLM's that raised, such as `linear.py:412`.
        complaints: What is not sane about the output, a clause each.
        notes: What could not be judged, or was done otherwise than asked, a clause each.
        not_loaded: Parameters that nothing was loaded into, as vLLM tracks them.
        not_loaded_count: How many there are.
        speech: What it said, if it came to that.
        compared: Figures for people: perplexity, its ratio and the divergence to the reference.
        layers: What vLLM chose.
        architecture: The class that vLLM built.
        method: What vLLM takes the quantization for.
        dtype: What it computed in.
        device: Name of the device.
        libraries: Python, torch, transformers.
        weight_bytes: Parameters of the first rank in memory.
        device_bytes: In use on the first GPU, the reserve for the KV cache included.
        peak_bytes: The most memory of the machine that the child was seen to hold.
        load_seconds: From start to ready to speak.
        tokens_per_second: Of all answers together; one run, for information.
        log: The last lines of the child's log, where it did not end well.
    """

    source: str
    target: Target
    outcome: SmokeOutcome
    reason: str = ""
    phase: str = ""
    exception: str = ""
    message: str = ""
    where: str = ""
    complaints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    not_loaded: tuple[str, ...] = ()
    not_loaded_count: int = 0
    speech: Speech | None = None
    compared: tuple[tuple[str, float], ...] = ()
    layers: tuple[LayerChoice, ...] = ()
    architecture: str = ""
    method: str = ""
    dtype: str = ""
    device: str = ""
    libraries: str = ""
    weight_bytes: int = 0
    device_bytes: int = 0
    peak_bytes: int = 0
    load_seconds: float = 0.0
    tokens_per_second: float = 0.0
    log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SmokeRun:
    """The answers in the order of the sources, and the target they are for."""

    target: Target
    results: tuple[SmokeLoad, ...]


def read_result(
    source: str, target: Target, said: Mapping[str, Any], *, has_words: bool
) -> SmokeLoad:
    """A child's answer as data; a model that spoke `works` until its words are judged.

    Raises:
        ValueError: The child did not say what it should; its process runs a model's numbers
            through vLLM and is not trusted further than needed.
    """
    try:
        spoke = said["outcome"] == "spoke"
        lost = said.get("not_loaded", {"count": 0, "names": []})
        return SmokeLoad(
            source=source,
            target=target,
            outcome=SmokeOutcome.WORKS if spoke else _not_spoken(said["outcome"]),
            reason=_text(said.get("reason", "")),
            phase=_text(said.get("phase", "")),
            exception=_text(said.get("exception", "")),
            message=_text(said.get("message", "")),
            where=_text(said.get("where", "")),
            not_loaded=tuple(map(_text, _items(lost["names"]))),
            not_loaded_count=_whole(lost["count"]),
            speech=_speech(said, has_words=has_words) if spoke else None,
            layers=tuple(map(_layer, _items(said.get("layers", [])))),
            architecture=_text(said.get("architecture", "")),
            method=_text(said.get("method", "")),
            dtype=_text(said.get("dtype", "")),
            weight_bytes=_whole(said.get("weight_bytes", 0)),
            device_bytes=_whole(said.get("device_bytes", 0)),
            load_seconds=_real(said.get("load_seconds", 0.0)),
            tokens_per_second=_real(said.get("tokens_per_second", 0.0)),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the child's answer is malformed: {error!r}") from None


def _not_spoken(outcome: Any) -> SmokeOutcome:
    found = SmokeOutcome(outcome)
    if found not in {SmokeOutcome.FAILS, SmokeOutcome.UNKNOWN}:
        raise ValueError(f"{found} is not for the child to say")
    return found


def _speech(said: Mapping[str, Any], *, has_words: bool) -> Speech:
    text = said["text"]
    ids = tuple(map(_whole, _items(text["ids"])))
    logprobs = tuple(map(_chance, _items(text["logprobs"])))
    top = tuple(map(_candidates, _items(text["top"])))
    if not len(logprobs) == len(top) == len(ids) - 1:
        raise ValueError("a text was not scored token by token")
    answers = tuple(map(_answer, _items(said["answers"])))
    if not answers:
        raise ValueError("no prompt was answered")
    return Speech(_whole(said["vocabulary"]), Scored(ids, logprobs, top), answers, has_words)


def _answer(value: Mapping[str, Any]) -> Answer:
    broken = sum(_chance(p) is None for p in _items(value["logprobs"]))
    return Answer(tuple(map(_whole, _items(value["ids"]))), _text(value["text"]), broken)


def _candidates(value: Any) -> Mapping[int, float]:
    pairs = [(_whole(i), _chance(p)) for i, p in _items(value)]
    return {i: p for i, p in pairs if p is not None}


def _layer(value: Mapping[str, Any]) -> LayerChoice:
    words = {k: _text(value[k]) for k in ("layers", "method", "scheme", "kernel")}
    return LayerChoice(**words, count=_whole(value["count"]))


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise TypeError("not a list, or too long a one")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise TypeError("a count is none")
    return value


def _real(value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("a number is none")
    return float(value)


def _chance(value: Any) -> float | None:
    """A log-probability; rounding may lift it a little above 0."""
    return None if value is None else min(0.0, _real(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is not a string")
    return value[:MAX_TEXT]
