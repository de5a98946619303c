"""Which module a tensor belongs to."""

import pytest

from quantgate.checkpoint.tensor_names import split_name


@pytest.mark.parametrize(
    ("name", "module", "leaf"),
    [
        ("a.q_proj.weight", "a.q_proj", "weight"),
        ("a.q_proj.weight.absmax", "a.q_proj", "weight.absmax"),
        (
            "a.q_proj.weight.quant_state.bitsandbytes__nf4",
            "a.q_proj",
            "weight.quant_state.bitsandbytes__nf4",
        ),
        ("a.q_proj.weight._data", "a.q_proj", "weight._data"),
        ("a.parametrizations.weight.original0", "a.parametrizations.weight", "original0"),
        ("bias", "", "bias"),
    ],
)
def test_what_hangs_on_a_weight_is_its_modules(name: str, module: str, leaf: str) -> None:
    """The state of a weight belongs to the module that owns the weight."""
    assert split_name(name) == (module, leaf)
