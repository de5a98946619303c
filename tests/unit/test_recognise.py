"""Telling the method from keys and tensors alone."""

import pytest

from quantgate.quantization.reading import read_declaration
from quantgate.quantization.recognise import is_mlx, meant_method, method_of_tensors
from tests.support.build import parse_tensor
from tests.support.declarations import DECLARATIONS
from tests.support.linears import linear_tensors


def modules(method: str) -> dict[str, dict[str, tuple[str, tuple[int, ...]]]]:
    """One healthy module of a method."""
    tensors = linear_tensors(method, 512, 256)
    return {"m": {leaf: parse_tensor(text) for leaf, text in tensors.items()}}


@pytest.mark.parametrize("name", [n for n in DECLARATIONS if n != "none"])
def test_a_healthy_model_is_recognised_without_its_method(name: str) -> None:
    """Keys and tensors of every healthy model lead to the method that it names."""
    block = {k: v for k, v in DECLARATIONS[name].items() if k != "quant_method"}

    assert meant_method(block, modules(name)) == DECLARATIONS[name]["quant_method"]


def test_tensors_that_several_methods_write_leave_it_open() -> None:
    """FP8 with a scale per tensor may come from four methods."""
    assert method_of_tensors(modules("fp8-static")) == ""


def test_contradiction_leaves_it_open() -> None:
    """Keys of GPTQ over tensors of AWQ are neither."""
    assert meant_method({"desc_act": False, "sym": True}, modules("awq")) == ""


def test_mlx_needs_bits_and_group_size() -> None:
    """A key named quantization alone is not MLX."""
    assert is_mlx({"quantization": {"group_size": 64, "bits": 4}})
    assert not is_mlx({"quantization": "4bit"})
    assert not is_mlx({"quantization": {"qformat_weight": "fp8_e4m3"}})


@pytest.mark.parametrize(
    ("block", "method"),
    [
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "fp8"}}, "modelopt"),
        ({"producer": {"name": "modelopt"}, "quant_algo": "FP8"}, ""),
        ({"quantization": {"quant_algo": "FP8"}}, ""),
    ],
)
def test_modelopt_is_taken_from_the_nested_layout_only(
    block: dict[str, object], method: str
) -> None:
    """vLLM infers the method from producer and nested algorithm together, from nothing else."""
    declaration = read_declaration({"quantization_config": block}, {})

    assert declaration is not None
    assert declaration.method == method
