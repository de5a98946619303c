"""Whether what a model said is sane."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgate.vllm.smoke.divergence import divergence, perplexity
from quantgate.vllm.smoke.result import Answer
from quantgate.vllm.smoke.sanity import Thresholds, judge_speech, repeats
from tests.smoke.speeches import SANE, STUCK, scored, speech

PROMPTS = ("The capital of France is", "One, two, three", "Once", "The water")
LIMITS = Thresholds()


def test_sane_speech() -> None:
    """A model that can read English and does not repeat itself has no complaint."""
    found = judge_speech(speech(), PROMPTS, LIMITS)
    assert (found.complaints, found.notes) == ((), ())
    assert dict(found.figures)["perplexity"] == 5.0


def test_perplexity_near_the_vocabulary() -> None:
    """A model that knows nothing is told by its perplexity, and by what it says."""
    (complaint,) = judge_speech(speech(1 / 900), PROMPTS, LIMITS).complaints
    assert "perplexity of plain English is 900.0, above 125" in complaint
    assert '"The capital of France is" with "Paris, a city in Europe"' in complaint


@pytest.mark.parametrize(("vocabulary", "bound"), [(256, 32), (8000, 1000), (150_000, 1000)])
def test_bound_grows_with_the_vocabulary(vocabulary: int, bound: float) -> None:
    """An eighth of the vocabulary, at most 1,000; a bound that is given wins."""
    assert Thresholds().most_perplexity(vocabulary) == bound
    assert Thresholds(perplexity=7).most_perplexity(vocabulary) == 7


def test_answers_of_one_token() -> None:
    """Most answers being one token again and again is a complaint that shows one."""
    (complaint,) = judge_speech(speech(answers=[STUCK] * 3 + [SANE]), PROMPTS, LIMITS).complaints
    assert complaint == (
        '3 of 4 answers repeat one token, such as "The capital of France is" with "!!!!!!!!!!"'
    )


def test_some_repetition_is_accepted() -> None:
    """Half of the answers may repeat themselves, or whatever the threshold says."""
    half = speech(answers=[STUCK, STUCK, SANE, SANE])
    assert judge_speech(half, PROMPTS, LIMITS).complaints == ()
    assert judge_speech(half, PROMPTS, Thresholds(repetition=0.25)).complaints


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ((0,) * 8, True),
        ((0,) * 7, False),
        ((7, 7, 0, 0, 0, 0, 0, 1, 2, 3), True),
        ((1, 2) * 10, False),
        ((), False),
    ],
)
def test_repetition_is_one_token(ids: tuple[int, ...], expected: bool) -> None:
    """Half of a long enough answer is one run of a token; a phrase that comes back is sane."""
    assert repeats(Answer(ids, "", 0)) is expected


def test_repetition_that_the_reference_has_too() -> None:
    """Where the unquantized model repeats itself as much, it is a note."""
    stuck = speech(answers=[STUCK] * 4)
    found = judge_speech(stuck, PROMPTS, LIMITS, stuck)
    assert found.complaints == ()
    assert "so do those of the reference" in found.notes[0]


def test_hostile_answer_is_escaped() -> None:
    """What a model says acts on no terminal."""
    answer = Answer((0,) * 9, "\x1b[31m::error::\u202e", 0)
    (complaint,) = judge_speech(speech(answers=[answer] * 4), PROMPTS, LIMITS).complaints
    assert complaint.isprintable()
    assert "\\x1b[31m" in complaint


def test_logits_that_are_no_numbers() -> None:
    """NaN is a complaint of its own, and no perplexity is told."""
    text = replace(scored(0.2), logprobs=(None, *scored(0.2).logprobs[1:]))
    broken = replace(speech(), text=text, answers=(replace(SANE, broken=3), SANE, SANE, SANE))
    found = judge_speech(broken, PROMPTS, LIMITS, speech())
    assert found.complaints == (
        "logits are not finite (NaN or infinite) at 1 of 19 positions of the text and in 1 of 4 "
        "answers",
    )
    assert "perplexity" not in dict(found.figures)


def test_without_tokenizer() -> None:
    """Random tokens are neither plain English, nor is a loop of random weights a fault."""
    mute = speech(1 / 900, [STUCK] * 4, has_words=False)
    found = judge_speech(mute, PROMPTS, LIMITS)
    assert found.complaints == ()
    assert len(found.notes) == 2


def test_reference_is_alike() -> None:
    """A small loss beside the reference is sane, and told."""
    found = judge_speech(speech(0.19), PROMPTS, LIMITS, speech(0.2))
    assert found.complaints == ()
    assert dict(found.figures)["perplexity ratio"] == 1.053


def test_reference_is_much_better() -> None:
    """A perplexity within the bound and far from the reference is a complaint, as is the KL."""
    ratio, apart = judge_speech(speech(0.05), PROMPTS, LIMITS, speech(0.9)).complaints
    assert "is 18.00 times that of the reference (20.0 to 1.1), above 1.5" in ratio
    assert "KL divergence from the reference is at least" in apart
    generous = Thresholds(ratio=20, divergence=5)
    assert judge_speech(speech(0.05), PROMPTS, generous, speech(0.9)).complaints == ()


def test_ratio_of_random_tokens_is_not_judged() -> None:
    """Without words only the divergence from the reference counts."""
    mute, other = (speech(c, has_words=False) for c in (0.05, 0.9))
    (complaint,) = judge_speech(mute, PROMPTS, LIMITS, other).complaints
    assert complaint.startswith("the KL divergence")


def test_reference_with_another_tokenizer() -> None:
    """Where the tokens differ nothing can be compared, and that is a complaint."""
    other = replace(speech(), text=replace(scored(0.2), ids=tuple(range(1, 21))))
    (complaint,) = judge_speech(speech(), PROMPTS, LIMITS, other).complaints
    assert "splits the text into other tokens" in complaint


def test_perplexity_that_no_number_holds() -> None:
    """A text that is held impossible has an infinite perplexity, not an error."""
    assert perplexity([-1e6, -1e6]) == math.inf
    assert perplexity([0.0]) == 1.0


def softmax(logits: list[float]) -> dict[int, float]:
    """All log-probabilities."""
    total = math.log(math.fsum(map(math.exp, logits)))
    return {i: x - total for i, x in enumerate(logits)}


def likeliest(chances: dict[int, float], count: int) -> dict[int, float]:
    """As vLLM tells them."""
    return dict(sorted(chances.items(), key=lambda item: -item[1])[:count])


LOGITS = st.lists(st.floats(-8, 8), min_size=12, max_size=12).map(softmax)


@given(LOGITS, LOGITS, st.integers(1, 12))
def test_divergence_is_a_lower_bound(p: dict, q: dict, count: int) -> None:
    """From the likeliest tokens alone it is never more than the true one, and exact from all."""
    true = math.fsum(math.exp(p[i]) * (p[i] - q[i]) for i in p)
    found = divergence(likeliest(p, count), likeliest(q, count))
    assert 0 <= found <= true + 1e-6
    if count == len(p):
        assert found == pytest.approx(true, abs=1e-6)


def test_divergence_of_strangers() -> None:
    """Two models that name no token in common are far apart, though the groups' masses agree."""
    one = {i: math.log(0.099) for i in range(10)}
    other = {i: math.log(0.009) for i in range(100, 200)}
    assert divergence(one, other) > 1.0
