"""What models may say, for the tests of the judgement."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from quantgate.vllm.smoke.result import Answer, Scored, Speech

if TYPE_CHECKING:
    from collections.abc import Sequence

SANE = Answer((5, 9, 5, 7, 1, 3, 9, 2, 4, 6), "Paris, a city in Europe", 0)
STUCK = Answer((0,) * 10, "!!!!!!!!!!", 0)


def scored(chance: float, vocabulary: int = 1000, length: int = 20) -> Scored:
    """A text, each token of which has this probability; it is the likeliest one."""
    logprob = math.log(chance)
    rest = math.log((1 - chance) / (vocabulary - 1)) if chance < 1 else -math.inf
    top = tuple({token: logprob, token + 1: rest} for token in range(1, length))
    return Scored(tuple(range(length)), (logprob,) * (length - 1), top)


def speech(
    chance: float = 0.2,
    answers: Sequence[Answer] = (SANE, SANE, SANE, SANE),
    *,
    vocabulary: int = 1000,
    has_words: bool = True,
) -> Speech:
    """What a model says that gives every token of the text this probability."""
    return Speech(vocabulary, scored(chance, vocabulary), tuple(answers), has_words)
