"""Quark: picking a scheme, and what names lead to it."""

import copy
from typing import Any

import pytest

from quantgate.quantization.declaration import ProblemKind
from quantgate.quantization.quark import QuarkDeclaration
from quantgate.quantization.reading import read_declaration
from quantgate.quantization.scheme import Layout
from quantgate.vllm.dialect import Dialect
from quantgate.vllm.layers import build_layers
from quantgate.vllm.matching.decision import Decision
from quantgate.vllm.matching.lists import Stored
from quantgate.vllm.matching.matcher import Matcher
from quantgate.vllm.naming import naming_of
from tests.support.declarations import DECLARATIONS

GATE_UP = ("model.layers.1.mlp.gate_proj", "model.layers.1.mlp.up_proj")
FP8 = DECLARATIONS["quark-fp8"]["global_quant_config"]


def read(name: str = "quark-mxfp4", **changes: Any) -> QuarkDeclaration:
    """A healthy block with changed keys."""
    block = {**copy.deepcopy(DECLARATIONS[name]), **changes}
    declaration = read_declaration({"quantization_config": block}, {})
    assert isinstance(declaration, QuarkDeclaration)
    return declaration


def decide(declaration: QuarkDeclaration, *modules: str) -> Decision:
    """The decision on the layer of these modules."""
    naming = naming_of({"architectures": ["LlamaForCausalLM"]}, "0.33.0")
    (layer,) = build_layers(modules, naming)
    nothing = Stored(frozenset(), frozenset())
    return Matcher(declaration, naming, Dialect.of((0, 33, 0)), nothing).decide(layer)


def layout_of(decision: Decision) -> Layout | None:
    """The layout that was decided."""
    return decision.scheme and decision.scheme.layout


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("quark-fp8", Layout.FP8),
        ("quark-channel", Layout.FP8),
        ("quark-int8", Layout.INT8),
        ("quark-int4", Layout.QUARK_INT4),
        ("quark-mxfp4", Layout.OCP_MX),
        ("quark-nvfp4", Layout.MODELOPT_NVFP4),
    ],
)
def test_combination_decides_the_scheme(name: str, layout: Layout) -> None:
    """Every healthy block gives its layout to a Linear and has no problem."""
    declaration = read(name)

    assert layout_of(decide(declaration, "model.layers.1.mlp.down_proj")) == layout
    assert not declaration.problems


@pytest.mark.parametrize(
    ("changes", "key", "kind"),
    [
        ({"export": None}, "export", ProblemKind.MISSING),
        ({"exclude": None}, "exclude", ProblemKind.MISSING),
        ({"layer_type_quant_config": None}, "layer_type_quant_config", ProblemKind.MISSING),
        ({"layer_quant_config": []}, "layer_quant_config", ProblemKind.VALUE),
        ({"global_quant_config": 3}, "global_quant_config", ProblemKind.VALUE),
        (
            {"global_quant_config": {"weight": {"dtype": "int2"}}},
            "global_quant_config",
            ProblemKind.SCHEME,
        ),
        (
            {"layer_quant_config": {"*q_proj": {**FP8, "output_tensors": {"dtype": "int8"}}}},
            "layer_quant_config.*q_proj",
            ProblemKind.SCHEME,
        ),
    ],
)
def test_what_vllm_refuses_is_noted(changes: dict[str, Any], key: str, kind: ProblemKind) -> None:
    """Missing keys, unusable values and combinations without a scheme are problems."""
    assert (key, kind) in [(p.key, p.kind) for p in read(**changes).problems]


def test_output_of_a_cached_projection_is_no_problem() -> None:
    """Entries of the kv_cache_group say how the cache is quantized, not the layer."""
    cached = {**FP8, "output_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}

    declaration = read(
        "quark-fp8",
        layer_quant_config={"*k_proj": cached, "*v_proj": cached},
        export={"kv_cache_group": ["*k_proj", "*v_proj"], "pack_method": "reorder"},
    )

    assert not declaration.problems


@pytest.mark.parametrize(
    ("pattern", "layout"),
    [
        ("*down_proj", Layout.FP8),
        ("model.layers.1.mlp.down_proj", Layout.FP8),
        ("the model.layers.1.mlp.down_proj of it", Layout.FP8),  # contains the whole name
        ("down_proj", Layout.OCP_MX),
        ("*up_proj", Layout.OCP_MX),
    ],
)
def test_entry_for_a_name_beats_the_global_one(pattern: str, layout: Layout) -> None:
    """A pattern is a wildcard, and a plain entry counts if it contains the name."""
    declaration = read(layer_quant_config={pattern: FP8})

    assert layout_of(decide(declaration, "model.layers.1.mlp.down_proj")) == layout


@pytest.mark.parametrize(
    ("excluded", "module"),
    [
        ("model.layers.1.mlp.down_proj", "model.layers.1.mlp.down_proj"),
        ("re:.*down", "model.layers.1.mlp.down_proj"),
        ("model.layers.1.mlp.experts.*.down_proj", "model.layers.1.mlp.experts.3.up_proj"),
    ],
)
def test_excluded_module_is_dense(excluded: str, module: str) -> None:
    """Names and patterns count; one entry below the experts excludes them all."""
    decision = decide(read(exclude=[excluded]), module)

    assert decision.scheme is None
    assert not decision.unreadable


def test_shards_with_different_configs_disagree() -> None:
    """vLLM raises where the parts of a fused layer are configured differently."""
    decision = decide(read(layer_quant_config={"*gate_proj": FP8}), *GATE_UP)

    assert decision.disagree == "scheme"
    assert len({scheme for _, scheme in decision.schemes}) == 2


def test_head_is_never_quantized() -> None:
    """Quark leaves lm_head dense whether it is excluded or not."""
    assert not decide(read(exclude=[]), "lm_head").unreadable
