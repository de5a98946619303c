"""Whether what a model says is sane. Pure: from what was said, thresholds and a reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from quantgate.report.inert import plain
from quantgate.report.words import plural
from quantgate.vllm.smoke.divergence import mean_divergence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quantgate.vllm.smoke.result import Answer, Speech

LEAST_TOKENS = 8
"""A shorter answer says nothing about repetition."""
SHOWN = 60


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What is accepted.

    Attributes:
        perplexity: Of the text; 0 for an eighth of the vocabulary, at most 1,000. A model that
            knows nothing has the whole vocabulary or more, one that can read English a few dozen
            at most.
        repetition: The share of answers that may be little else than one token again and again.
        ratio: Perplexity over that of the reference.
        divergence: Mean KL divergence from the reference, in nats for each token.
    """

    perplexity: float = 0.0
    repetition: float = 0.5
    ratio: float = 1.5
    divergence: float = 0.5

    def most_perplexity(self, vocabulary: int) -> float:
        """The bound for a model with so many tokens."""
        return self.perplexity or min(1000.0, vocabulary / 8)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is wrong, what could not be judged, and the figures that were looked at."""

    complaints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    figures: tuple[tuple[str, float], ...] = ()


@dataclass(slots=True)
class _Judge:
    complaints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[tuple[str, float]] = field(default_factory=list)


def judge_speech(
    speech: Speech, prompts: Sequence[str], thresholds: Thresholds, reference: Speech | None = None
) -> Judgement:
    """What is not sane about it; `reference` is what the model that was quantized said."""
    judge = _Judge()
    judge.complaints += _not_numbers(speech)
    _perplexity(judge, speech, prompts, thresholds)
    _repetition(judge, speech, prompts, thresholds, reference)
    if reference is not None:
        _compare(judge, speech, reference, thresholds)
    return Judgement(tuple(judge.complaints), tuple(judge.notes), tuple(judge.figures))


def _not_numbers(speech: Speech) -> Iterator[str]:
    places = []
    if speech.text.broken:
        places.append(
            f"at {speech.text.broken} of {plural(len(speech.text.logprobs), 'position')} "
            "of the text"
        )
    answers = sum(bool(a.broken) for a in speech.answers)
    if answers:
        places.append(f"in {answers} of {plural(len(speech.answers), 'answer')}")
    if places:
        yield f"logits are not finite (NaN or infinite) {' and '.join(places)}"


def _perplexity(
    judge: _Judge, speech: Speech, prompts: Sequence[str], thresholds: Thresholds
) -> None:
    found = speech.text.perplexity
    if found is None:
        return
    judge.figures.append(("perplexity", round(found, 3)))
    if not speech.has_words:
        judge.notes.append(
            "it has no tokenizer: it was given random tokens, whose perplexity means nothing"
        )
        return
    most = thresholds.most_perplexity(speech.vocabulary)
    if found > most:
        judge.complaints.append(
            f"the perplexity of plain English is {found:,.1f}, above {most:g}, "
            f"and it continues {_quoted(speech, prompts, 0)}"
        )


def _repetition(
    judge: _Judge,
    speech: Speech,
    prompts: Sequence[str],
    thresholds: Thresholds,
    reference: Speech | None,
) -> None:
    stuck = [n for n, a in enumerate(speech.answers) if repeats(a)]
    judge.figures.append(("answers that repeat one token", float(len(stuck))))
    if len(stuck) <= thresholds.repetition * len(speech.answers):
        return
    said = f"{len(stuck)} of {plural(len(speech.answers), 'answer')} repeat one token"
    if reference is not None and sum(map(repeats, reference.answers)) >= len(stuck):
        judge.notes.append(f"{said}, and so do those of the reference")
    elif speech.has_words:
        judge.complaints.append(f"{said}, such as {_quoted(speech, prompts, stuck[0])}")
    else:
        # Random weights repeat themselves, too; only beside a reference does it mean something.
        (judge.notes if reference is None else judge.complaints).append(
            f"{said}, such as {list(speech.answers[stuck[0]].ids[:LEAST_TOKENS])}"
        )


def _quoted(speech: Speech, prompts: Sequence[str], number: int) -> str:
    asked = plain(prompts[number], SHOWN) if number < len(prompts) else ""
    return f'"{asked}" with "{plain(speech.answers[number].text, SHOWN)}"'


def repeats(answer: Answer) -> bool:
    """Whether most of it is one token again and again: the "!!!!" of logits that are all alike.

    A phrase that comes back is common with small models, and sane.
    """
    if len(answer.ids) < LEAST_TOKENS:
        return False
    longest = max(sum(1 for _ in run) for _, run in groupby(answer.ids))
    return 2 * longest >= len(answer.ids)


def _compare(judge: _Judge, speech: Speech, reference: Speech, thresholds: Thresholds) -> None:
    if speech.text.ids != reference.text.ids:
        judge.complaints.append("it splits the text into other tokens than the reference does")
        return
    if reference.text.broken:
        judge.notes.append("the reference's own logits are not finite, so nothing can be compared")
        return
    mine, other = speech.text.perplexity, reference.text.perplexity
    if mine is None or not other:
        return
    ratio = mine / other
    apart = mean_divergence(reference.text.top, speech.text.top)
    judge.figures += [
        ("perplexity of the reference", round(other, 3)),
        ("perplexity ratio", round(ratio, 3)),
        ("KL divergence, at least", round(apart, 4)),
    ]
    # Random tokens are so unlikely that the ratio is chance; the divergence is not.
    if speech.has_words and ratio > thresholds.ratio:
        judge.complaints.append(
            f"its perplexity is {ratio:,.2f} times that of the reference ({mine:,.1f} to "
            f"{other:,.1f}), above {thresholds.ratio:g}"
        )
    if apart > thresholds.divergence:
        judge.complaints.append(
            f"the KL divergence from the reference is at least {apart:.2f} nats, above "
            f"{thresholds.divergence:g}"
        )
