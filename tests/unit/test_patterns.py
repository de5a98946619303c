"""Lists of names and patterns: asked for together or one by one, with slow and broken ones."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from quantgate.vllm.patterns import Entries, PatternError, forget_patterns, regex_matches

PARTS = st.sampled_from(
    [".*", "layers", r"\.", r"\d+", "mlp", "(a|b)", "q_proj", "[0-3]", "$", "^"]
)
PATTERNS = st.lists(st.lists(PARTS, min_size=1, max_size=5).map("".join), min_size=1, max_size=40)
NAMES = st.sampled_from(
    ["model.layers.0.mlp.up_proj", "layers.3.q_proj", "a", "b.mlp", "lm_head", "", "mlp"]
)
SLOW = r"(\w|\w\w|\w{3}|\.)+\d$"


@given(PATTERNS, NAMES)
def test_many_patterns_answer_as_one_by_one(patterns: list[str], name: str) -> None:
    """The first entry that matches is the same, however many there are."""
    hits = [p for p in patterns if regex.match(p, name)]
    entries = Entries([f"re:{p}" for p in patterns])

    assert entries.first(name) == (f"re:{hits[0]}" if hits else None)
    assert entries.matches(name) == bool(hits)


@pytest.mark.parametrize("special", [r"(.)\1", "(?i)MLP", "(?P<x>m)lp", "a(?#"])
def test_patterns_that_cannot_be_joined_are_asked_alone(special: str) -> None:
    """Numbered parts, flags and names keep their meaning among many other patterns."""
    entries = Entries([*(f"re:none{i}" for i in range(40)), f"re:{special}"])
    try:
        expected = regex.match(special, "mlp") is not None
    except regex.error:
        with pytest.raises(PatternError):
            entries.matches("mlp")
        return
    assert entries.matches("mlp") == expected


def test_a_slow_pattern_is_given_up_until_the_next_checkpoint() -> None:
    """After one name took too long, any other is refused at once; a new checkpoint starts anew."""
    forget_patterns()
    assert not regex_matches(SLOW, "a")
    with pytest.raises(PatternError, match="too long") as caught:
        regex_matches(SLOW, "model.layers.11.self_attn.qkv_proj")
    assert caught.value.slow
    with pytest.raises(PatternError):
        regex_matches(SLOW, "a")

    forget_patterns()
    assert not regex_matches(SLOW, "a")
