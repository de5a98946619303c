"""ModelOpt: reading the block, and what its lists do to a layer."""

from typing import Any

import pytest

from quantgate.quantization.declaration import Declaration, ProblemKind
from quantgate.quantization.modelopt import ModelOptDeclaration
from quantgate.quantization.reading import read_declaration
from quantgate.quantization.scheme import Layout, Strategy
from quantgate.vllm.dialect import Dialect
from quantgate.vllm.layers import build_layers
from quantgate.vllm.matching.decision import Decision
from quantgate.vllm.matching.lists import Stored
from quantgate.vllm.matching.matcher import Matcher
from quantgate.vllm.naming import naming_of

LLAMA = {"architectures": ["LlamaForCausalLM"]}
GATE_UP = ("model.layers.1.mlp.gate_proj", "model.layers.1.mlp.up_proj")


def read(block: dict[str, Any], side: dict[str, Any] | None = None) -> ModelOptDeclaration:
    """The declaration of a block in config.json."""
    sides = {} if side is None else {"hf_quant_config.json": side}
    declaration = read_declaration({"quantization_config": block}, sides)
    assert isinstance(declaration, ModelOptDeclaration)
    return declaration


def decide(
    declaration: Declaration, *modules: str, release: str = "0.33.0", **config: Any
) -> Decision:
    """The decision on the layer of these modules."""
    naming = naming_of({**LLAMA, **config}, release)
    dialect = Dialect.of(tuple(int(p) for p in release.split(".")), declaration.method)
    (layer,) = build_layers(modules, naming)
    return Matcher(declaration, naming, dialect, Stored(frozenset(), frozenset())).decide(layer)


def flat(algorithm: str, **more: Any) -> dict[str, Any]:
    """A flat block."""
    return {"quant_method": "modelopt", "quant_algo": algorithm, **more}


@pytest.mark.parametrize(
    ("algorithm", "layout", "strategy"),
    [
        ("fp8", Layout.FP8, Strategy.TENSOR),
        ("FP8_PER_CHANNEL_PER_TOKEN", Layout.FP8, Strategy.CHANNEL),
        ("fp8_pb_wo", Layout.FP8, Strategy.BLOCK),
        ("NVFP4", Layout.MODELOPT_NVFP4, Strategy.TENSOR_GROUP),
        ("MXFP8", Layout.MXFP8, Strategy.GROUP),
    ],
)
def test_algorithm_decides_the_scheme(algorithm: str, layout: Layout, strategy: Strategy) -> None:
    """Every algorithm, in any case of letters, has its layout."""
    scheme = read(flat(algorithm)).scheme()

    assert scheme is not None
    assert (scheme.layout, scheme.strategy) == (layout, strategy)


@pytest.mark.parametrize(
    ("block", "key", "kind"),
    [
        ({"quant_method": "modelopt"}, "quant_algo", ProblemKind.MISSING),
        (flat("INT4_AWQ"), "quant_algo", ProblemKind.VALUE),
        (flat("MIXED_PRECISION"), "quantized_layers", ProblemKind.MISSING),
        (flat("NVFP4", group_size="x"), "group_size", ProblemKind.VALUE),
        (flat("FP8", ignore="lm_head"), "ignore", ProblemKind.VALUE),
        ({"quant_method": "modelopt", "quantization": 3}, "quantization", ProblemKind.VALUE),
        (
            {"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4", "group_size": 16,
             "kv_cache_quant_algo": None}},
            "quantization.exclude_modules",
            ProblemKind.MISSING,
        ),
        (
            {"quant_method": "modelopt_fp4", "quant_algo": "FP8_PB_WO"},
            "quant_algo",
            ProblemKind.VALUE,
        ),
    ],
)  # fmt: skip
def test_what_vllm_refuses_is_noted(block: dict[str, Any], key: str, kind: ProblemKind) -> None:
    """Missing and unusable values are problems at their place."""
    assert (key, kind) in [(p.key, p.kind) for p in read(block).problems]


@pytest.mark.parametrize(("release", "weight_only"), [("0.27.1", False), ("0.30.0", True)])
def test_weights_only_groups_make_nvfp4_weight_only(release: str, weight_only: bool) -> None:
    """NVFP4 whose groups leave the inputs alone needs no input scale in newer releases."""
    group = {"targets": ["Linear"], "weights": {}, "input_activations": None}

    declaration = read(flat("NVFP4", config_groups={"group_0": group}))
    scheme = decide(declaration, "model.layers.1.mlp.down_proj", release=release).scheme

    assert scheme is not None
    assert (scheme.activations is None) is weight_only


def test_minimax_names_its_list_otherwise() -> None:
    """`quant_method: mxfp8` needs no algorithm and keeps the list in ignored_layers."""
    declaration = read({"quant_method": "mxfp8", "ignored_layers": ["lm_head"]})

    assert declaration.algorithm == "MXFP8"
    assert declaration.excluded == ("lm_head",)
    assert not declaration.problems


@pytest.mark.parametrize(
    ("entry", "module", "dense"),
    [
        ("model.layers.1.mlp.down_proj", "model.layers.1.mlp.down_proj", True),
        ("model.layers.1*", "model.layers.12.mlp.down_proj", True),  # a substring, not a prefix
        ("mlp.gate", "model.layers.1.mlp.gate_up_proj", True),
        ("*.mlp.*", "model.layers.1.mlp.down_proj", True),
        ("*.attn.*", "model.layers.1.mlp.down_proj", False),
        ("model.layers.[02].*", "model.layers.1.mlp.down_proj", False),
        ("down", "model.layers.1.mlp.up", False),
    ],
)
def test_list_entries_are_substrings_and_wildcards(entry: str, module: str, dense: bool) -> None:
    """What is_layer_excluded of vLLM 0.33.0 says to such an entry."""
    decision = decide(read(flat("FP8", ignore=[entry])), module)

    assert (decision.scheme is None) is dense


def test_list_that_names_one_shard_is_refused() -> None:
    """Exact names of fused shards must be all there."""
    decision = decide(read(flat("FP8", ignore=[GATE_UP[0]])), *GATE_UP)

    assert decision.disagree == "ignore"
    assert decision.unnamed == ("up_proj",)


@pytest.mark.parametrize(("release", "dense"), [("0.19.1", True), ("0.23.0", False)])
def test_head_is_quantized_since_0_23(release: str, dense: bool) -> None:
    """An lm_head that no list names is quantized by newer releases."""
    decision = decide(read(flat("FP8")), "lm_head", release=release)

    assert (decision.scheme is None) is dense


@pytest.mark.parametrize(("release", "dense"), [("0.32.0", False), ("0.33.0", True)])
def test_flat_exclude_modules_counts_since_0_33(release: str, dense: bool) -> None:
    """Older releases read only `ignore` in a flat block."""
    declaration = read(flat("FP8", exclude_modules=["*down_proj"]))

    decision = decide(declaration, "model.layers.1.mlp.down_proj", release=release)

    assert (decision.scheme is None) is dense


MIXED = {
    "model.layers.1.mlp.gate_proj": {"quant_algo": "NVFP4", "group_size": 16},
    "model.layers.1.mlp.down_proj": {"quant_algo": "fp8"},
    "model.layers.2.mlp.experts.0.up_proj": {"quant_algo": "NVFP4"},
}


@pytest.mark.parametrize(
    ("modules", "layout"),
    [
        (GATE_UP, Layout.MODELOPT_NVFP4),  # up_proj is not listed, which is allowed
        (("model.layers.1.mlp.down_proj",), Layout.FP8),
        (("model.layers.2.mlp.experts.0.up_proj",), Layout.MODELOPT_NVFP4),
        (("model.layers.1.self_attn.o_proj",), None),
    ],
)
def test_mixture_is_resolved_by_module(modules: tuple[str, ...], layout: Layout | None) -> None:
    """Each listed module has its algorithm, and the others stay dense."""
    scheme = decide(read(flat("MIXED_PRECISION", quantized_layers=MIXED)), *modules).scheme

    assert (scheme and scheme.layout) == layout


def test_mixture_takes_its_layers_from_the_side_file() -> None:
    """A block without quantized_layers is replaced by hf_quant_config.json."""
    side = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": MIXED}}

    declaration = read(flat("MIXED_PRECISION"), side)

    assert declaration.file == "hf_quant_config.json"
    assert declaration.layers["model.layers.1.mlp.down_proj"] == "FP8"


def test_shards_of_different_algorithms_disagree() -> None:
    """vLLM raises for two algorithms within one fused layer."""
    layers = {GATE_UP[0]: {"quant_algo": "NVFP4"}, GATE_UP[1]: {"quant_algo": "FP8"}}

    decision = decide(read(flat("MIXED_PRECISION", quantized_layers=layers)), *GATE_UP)

    assert decision.disagree == "scheme"
    assert [name for name, _ in decision.schemes] == ["gate_proj", "up_proj"]
