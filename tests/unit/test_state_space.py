"""How state spaces are found among the modules, and what a rank gets of them."""

from __future__ import annotations

import pytest

from quantgate.vllm.state_space import StateSpace, state_spaces

_MIXER = {
    "m.0.mixer": dict.fromkeys(("A_log", "D", "dt_bias"), ("BF16", (16,))),
    "m.0.mixer.conv1d": {"weight": ("BF16", (768, 1, 4))},
    "m.0.mixer.in_proj": {"weight": ("BF16", (1296, 256))},
}


@pytest.mark.parametrize("key", ["mamba_n_groups", "n_groups", "mamba_ngroups"])
def test_the_sections_follow_from_the_tensors(key: str) -> None:
    """Only the number of groups is the config's."""
    found = state_spaces({key: 2}, _MIXER)
    assert found == {"m.0.mixer.in_proj": StateSpace(16, 2, 512, 128)}
    assert found["m.0.mixer.in_proj"].sections == (512, 512, 128, 128, 16)


def test_a_config_without_groups_leaves_them_open() -> None:
    """The class has a default then, which is not known here."""
    assert state_spaces({}, _MIXER)["m.0.mixer.in_proj"].groups is None


@pytest.mark.parametrize(
    ("module", "leaves"),
    [
        ("m.0.mixer", dict.fromkeys(("A_log", "D", "dt_bias"), ("BF16", (16, 8)))),
        ("m.0.mixer", dict.fromkeys(("A_log", "dt_bias"), ("BF16", (16,)))),
        ("m.0.mixer", dict.fromkeys(("A_log", "D", "dt_bias"), ("BF16", (0,)))),
        ("m.0.mixer.conv1d", {"weight": ("BF16", ())}),
        ("m.0.mixer.conv1d", {"weight": ("BF16", (512, 1, 4))}),
        ("m.0.mixer.conv1d", {"weight": ("BF16", (1281, 1, 4))}),
        ("m.0.mixer.in_proj", {"weight": ("BF16", (3,))}),
        ("m.0.mixer.in_proj", {}),
    ],
    ids=["mamba", "delta net", "empty", "scalar", "no groups", "no rows", "flat", "gone"],
)
def test_other_blocks_and_damaged_ones_are_none(
    module: str, leaves: dict[str, tuple[str, tuple[int, ...]]]
) -> None:
    """Sizes that do not add up are no state space that anything could be said of."""
    assert state_spaces({"n_groups": 2}, {**_MIXER, module: leaves}) == {}


def test_a_rank_gets_a_copy_of_a_single_group() -> None:
    """vLLM reported `start (3352) + length (3352)` for this one on two ranks."""
    assert StateSpace(48, 1, 3072, 128).share(2) == 3352
    assert StateSpace(48, 2, 3072, 128).share(2) == 3224
