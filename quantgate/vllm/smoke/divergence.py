"""How far two models are apart on one text, from the likeliest tokens that each of them names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TINY = 1e-12


def perplexity(logprobs: Sequence[float]) -> float:
    """E to the mean negative log-probability; infinite where the text is held impossible."""
    mean = -math.fsum(logprobs) / len(logprobs)
    try:
        return math.exp(mean)
    except OverflowError:
        return math.inf


def divergence(reference: Mapping[int, float], other: Mapping[int, float]) -> float:
    """A lower bound of the KL divergence in nats of `other` from `reference`, at one position.

    Both map their likeliest tokens to log-probabilities. Tokens that both name count one by one.
    Those that only the reference names are one group: `other` gives each of them no more than the
    least likely token that it names. All the rest is a second group. Merging outcomes never makes a
    divergence larger, and of the masses that `other` may have given to the groups the most
    favourable one is taken: so the true divergence is at least this.
    """
    both = reference.keys() & other.keys()
    found, p_both, q_both = 0.0, 0.0, 0.0
    for token in both:
        p, q = math.exp(reference[token]), max(math.exp(other[token]), _TINY)
        found += _part(p, q)
        p_both, q_both = p_both + p, q_both + q
    only = reference.keys() - both
    p_only = math.fsum(math.exp(reference[t]) for t in only)
    p_rest = max(0.0, 1.0 - p_both - p_only)
    left = max(0.0, 1.0 - q_both)
    most = min(left, len(only) * math.exp(min(other.values(), default=0.0)))
    # Without the bound, splitting what is left as the reference does would be best.
    total = p_only + p_rest
    q_only = min(most, left * p_only / total) if total else 0.0
    found += _part(p_only, max(q_only, _TINY)) + _part(p_rest, max(left - q_only, _TINY))
    return max(0.0, found)


def mean_divergence(
    reference: Sequence[Mapping[int, float]], other: Sequence[Mapping[int, float]]
) -> float:
    """The mean of the lower bounds over the positions of a text."""
    parts = [divergence(p, q) for p, q in zip(reference, other, strict=True)]
    return math.fsum(parts) / len(parts)


def _part(p: float, q: float) -> float:
    return p * math.log(p / q) if p > 0.0 else 0.0
