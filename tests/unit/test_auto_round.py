"""AutoRound: reading the block, and what extra_config does to a layer."""

import copy
from typing import Any

import pytest

from quantgate.quantization.auto_round import AutoRoundDeclaration
from quantgate.quantization.declaration import ProblemKind
from quantgate.quantization.reading import read_declaration
from quantgate.quantization.scheme import Layout
from quantgate.vllm.dialect import Dialect
from quantgate.vllm.layers import build_layers
from quantgate.vllm.matching.decision import Decision
from quantgate.vllm.matching.lists import Stored
from quantgate.vllm.matching.matcher import Matcher
from quantgate.vllm.naming import naming_of
from tests.support.declarations import DECLARATIONS

DOWN = "model.layers.1.mlp.down_proj"
GATE_UP = ("model.layers.1.mlp.gate_proj", "model.layers.1.mlp.up_proj")


def read(name: str = "auto-round", **changes: Any) -> AutoRoundDeclaration:
    """A healthy block with changed keys; `...` removes one."""
    block = {**copy.deepcopy(DECLARATIONS[name]), **changes}
    block = {k: v for k, v in block.items() if v is not ...}
    declaration = read_declaration({"quantization_config": block}, {})
    assert isinstance(declaration, AutoRoundDeclaration)
    return declaration


def decide(declaration: AutoRoundDeclaration, *modules: str) -> Decision:
    """The decision on the layer of these modules."""
    naming = naming_of({"architectures": ["LlamaForCausalLM"]}, "0.33.0")
    (layer,) = build_layers(modules, naming)
    nothing = Stored(frozenset(), frozenset())
    return Matcher(declaration, naming, Dialect.of((0, 33, 0)), nothing).decide(layer)


def bits_of(decision: Decision) -> int:
    """The bits that were decided, 16 for a dense layer."""
    return decision.scheme.bits if decision.scheme else 16


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("auto-round", Layout.GPTQ),
        ("auto-round-awq", Layout.AWQ),
        ("auto-round-fp8", Layout.FP8),
        ("auto-round-mxfp4", Layout.MXFP4),
        ("auto-round-mxfp8", Layout.MXFP8),
    ],
)
def test_type_and_packing_decide_the_layout(name: str, layout: Layout) -> None:
    """Every healthy block gives its layout to a Linear and has no problem."""
    declaration = read(name)
    scheme = decide(declaration, DOWN).scheme

    assert scheme is not None
    assert scheme.layout is layout
    assert not declaration.problems


@pytest.mark.parametrize(
    ("changes", "key", "kind"),
    [
        ({"bits": ...}, "bits", ProblemKind.MISSING),
        ({"group_size": ...}, "group_size", ProblemKind.MISSING),
        ({"group_size": [1, 2, 3]}, "group_size", ProblemKind.VALUE),
        ({"group_size": 96}, "group_size", ProblemKind.VALUE),
        ({"group_size": [128, 128]}, "group_size", ProblemKind.VALUE),
        ({"sym": False}, "sym", ProblemKind.VALUE),
        ({"bits": 9}, "bits", ProblemKind.VALUE),
        ({"bits": 8, "packing_format": "auto_round:auto_awq"}, "bits", ProblemKind.VALUE),
        ({"packing_format": "auto_round"}, "packing_format", ProblemKind.VALUE),
        ({"packing_format": "auto_round:fp8"}, "packing_format", ProblemKind.VALUE),
        ({"data_type": "nv_fp"}, "data_type", ProblemKind.VALUE),
        ({"backend": "exllamav2"}, "backend", ProblemKind.VALUE),
        ({"vllm_backend": "gptq"}, "backend", ProblemKind.VALUE),
        ({"data_type": "mx_fp", "group_size": 16}, "group_size", ProblemKind.VALUE),
        ({"data_type": "fp", "bits": 8}, "group_size", ProblemKind.VALUE),
        ({"extra_config": {"lm_head": 4}}, "extra_config", ProblemKind.VALUE),
    ],
)
def test_what_vllm_refuses_is_noted(changes: dict[str, Any], key: str, kind: ProblemKind) -> None:
    """Missing and unusable values are problems at their place."""
    assert (key, kind) in [(p.key, p.kind) for p in read(**changes).problems]


@pytest.mark.parametrize(
    ("entry", "bits"),
    [
        ("model.layers.1.mlp.down_proj", 8),
        ("mlp.down_proj", 8),  # the end of the name
        (r".*down_proj", 8),
        (r"layers\.[12]\.", 8),  # a pattern is searched, not anchored
        ("layers.1", 4),  # a plain name is no substring
        ("[", 4),  # broken patterns count nowhere
    ],
)
def test_entry_is_a_name_its_end_or_a_pattern(entry: str, bits: int) -> None:
    """What INCConfigParser of vLLM 0.33.0 does with such an entry."""
    assert bits_of(decide(read(extra_config={entry: {"bits": 8}}), DOWN)) == bits


@pytest.mark.parametrize(
    ("changes", "modules", "bits"),
    [
        ({}, (DOWN,), 4),
        ({"block_name_to_quantize": "model.layers.0,model.layers.2"}, (DOWN,), 16),
        ({"block_name_to_quantize": ["model.layers.0", "model.layers.1"]}, (DOWN,), 4),
        ({}, ("lm_head",), 16),
        ({"extra_config": {"lm_head": {"bits": 8}}}, ("lm_head",), 8),
        ({"extra_config": {DOWN: {"bits": 16}}}, (DOWN,), 16),
        ({"extra_config": {n: {"bits": 8} for n in GATE_UP}}, GATE_UP, 8),
    ],
)  # fmt: skip
def test_what_is_quantized(changes: dict[str, Any], modules: tuple[str, ...], bits: int) -> None:
    """Blocks, names and the head decide together."""
    assert bits_of(decide(read(**changes), *modules)) == bits


def test_shards_with_different_settings_disagree() -> None:
    """One shard with an entry and one without differ, which vLLM refuses."""
    decision = decide(read(extra_config={GATE_UP[0]: {"bits": 8}}), *GATE_UP)

    assert decision.disagree == "scheme"
    assert "consistent quant config" in decision.error
