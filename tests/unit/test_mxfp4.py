"""MXFP4: only experts are quantized, whatever the block says."""

import pytest

from quantgate.quantization.compare import compare
from quantgate.quantization.difference import Kind
from quantgate.quantization.mxfp4 import Mxfp4Declaration
from quantgate.quantization.observed import observe
from quantgate.quantization.reading import read_declaration
from quantgate.quantization.scheme import Layout, Sizes
from quantgate.vllm.dialect import Dialect
from quantgate.vllm.layers import build_layers
from quantgate.vllm.loading import slicing_of
from quantgate.vllm.matching.lists import Stored
from quantgate.vllm.matching.matcher import Matcher
from quantgate.vllm.naming import naming_of

EXPERTS = "model.layers.0.mlp.experts"
# Shapes of openai/gpt-oss-20b.
GPT_OSS_20B = {
    "gate_up_proj_blocks": ("U8", (32, 5760, 90, 16)),
    "gate_up_proj_scales": ("U8", (32, 5760, 90)),
    "gate_up_proj_bias": ("BF16", (32, 5760)),
    "down_proj_blocks": ("U8", (32, 2880, 90, 16)),
    "down_proj_scales": ("U8", (32, 2880, 90)),
    "down_proj_bias": ("BF16", (32, 2880)),
}


def declared() -> Mxfp4Declaration:
    """The block of gpt-oss, whose list vLLM does not read."""
    block = {"quant_method": "mxfp4", "modules_to_not_convert": [EXPERTS]}
    declaration = read_declaration({"quantization_config": block}, {})
    assert isinstance(declaration, Mxfp4Declaration)
    return declaration


@pytest.mark.parametrize(
    ("module", "layout"),
    [
        (EXPERTS, Layout.GPT_OSS),
        (f"{EXPERTS}.3.down_proj", Layout.OCP_MX),
        ("model.layers.0.self_attn.o_proj", None),
        ("lm_head", None),
    ],
)
def test_only_experts_are_quantized(module: str, layout: Layout | None) -> None:
    """A Linear is dense although the method is declared, and the list counts for nothing."""
    naming = naming_of({"architectures": ["GptOssForCausalLM"]}, "0.33.0")
    (layer,) = build_layers([module], naming)
    matcher = Matcher(declared(), naming, Dialect.of((0, 33, 0)), Stored(frozenset(), frozenset()))

    scheme = matcher.decide(layer).scheme

    assert (scheme and scheme.layout) == layout


def test_real_experts_are_what_is_expected() -> None:
    """The tensors of gpt-oss-20b give width and hidden size, and nothing differs."""
    seen = observe(GPT_OSS_20B)
    scheme = declared().scheme(fused=True)

    assert (seen.n, seen.k) == (2880, 2880)
    assert not compare(GPT_OSS_20B, scheme, Sizes(), slicing_of(EXPERTS))


@pytest.mark.parametrize("leaf", ["gate_up_proj_scales", "down_proj_scales", "down_proj_blocks"])
def test_lost_tensor_is_missing(leaf: str) -> None:
    """Blocks and scales are needed; what stays tells their shapes."""
    left = {name: tensor for name, tensor in GPT_OSS_20B.items() if name != leaf}

    (found,) = compare(left, declared().scheme(fused=True), Sizes(), slicing_of(EXPERTS))

    assert (found.kind, found.leaf) == (Kind.MISSING, leaf)


def test_exponents_of_single_experts_may_be_typed() -> None:
    """The experts' loader takes E8M0 for what it is."""
    leaves = {"weight": ("U8", (64, 32)), "weight_scale": ("F8_E8M0", (64, 2))}

    module = f"{EXPERTS}.3.down_proj"

    assert not compare(leaves, declared().scheme(fused=False), Sizes(), slicing_of(module))
