"""Totals of a checkpoint and the quant map."""

import pytest

from quantgate.quantization.scheme import Sizes
from quantgate.quantization.statistics import label, statistics
from quantgate.report.quant_map import quant_map
from tests.support.build import healthy, parse_tensor
from tests.support.linears import linear_tensors
from tests.support.memory import model_of


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        ("gptq", "int4 g128"),
        ("gptq-8bit", "int8 g128"),
        ("awq", "int4 g128"),
        ("pack", "int4 g128"),
        ("pack-channel", "int8"),
        ("int8", "int8"),
        ("fp8-dynamic", "fp8"),
        ("nvfp4", "nvfp4"),
        ("mxfp4", "mxfp4"),
        ("none", "bf16"),
    ],
)
def test_label(method: str, wanted: str) -> None:
    """A stored scheme in a word or two, without believing the config."""
    leaves = {leaf: parse_tensor(t) for leaf, t in linear_tensors(method, 256, 256).items()}

    assert label(leaves, Sizes(256, 256)) == wanted


@pytest.mark.parametrize("method", ["gptq", "awq", "pack", "fp8-dynamic", "nvfp4", "none"])
def test_parameters_are_logical(method: str) -> None:
    """A packed weight counts N by K: every method gives the parameters of the dense model."""
    dense = model_of(*healthy("none"))
    model = model_of(*healthy(method))
    wanted = statistics(dense.modules, {}, 0).parameters

    found = statistics(model.modules, model.schemes, model.checkpoint.bytes_total)

    assert found.parameters == wanted
    assert found.quantized == (0 if method == "none" else 1_179_648)


def test_bits_per_weight_counts_scales() -> None:
    """Four bits and their scales are a little more than four."""
    leaves = {"m": {leaf: parse_tensor(t) for leaf, t in linear_tensors("awq", 256, 256).items()}}

    found = statistics(leaves, {}, nbytes=256 * 32 * 4 + 2 * 32 * 4 + 2 * 256 * 2)

    assert found.bits_per_weight == pytest.approx(4.156, abs=0.001)
    assert found.share == 1.0


def test_empty_checkpoint() -> None:
    """Nothing stored is no division by zero."""
    assert statistics({}, {}, 0).bits_per_weight == 0.0


def test_map_joins_kinds_and_layers() -> None:
    """Kinds stored alike share a line, layers in a row share a run, the odd one stands out."""
    labels = []
    for i in range(6):
        labels += [(f"model.layers.{i}.self_attn.{s}_proj", "int4") for s in "qk"]
        labels.append((f"model.layers.{i}.mlp.down_proj", "bf16" if i == 3 else "int4"))
    labels.append(("lm_head", "bf16"))

    rows = quant_map(labels)

    assert [(r.kinds, r.text) for r in rows] == [
        (("model.layers.*.self_attn.q_proj", "model.layers.*.self_attn.k_proj"), "0-5 int4"),
        (("model.layers.*.mlp.down_proj",), "0-2 int4, 3 bf16, 4-5 int4"),
        (("lm_head",), "bf16"),
    ]


def test_map_joins_experts() -> None:
    """Experts are one kind; two schemes within one layer show."""
    labels = [(f"layers.0.experts.{e}.w1", "int4" if e else "int8") for e in range(4)]

    (row,) = quant_map(labels)

    assert row.kinds == ("layers.*.experts.*.w1",)
    assert row.text == "0 int8 / int4"
