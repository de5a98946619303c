"""What the rules make of the facts of a release."""

from __future__ import annotations

import pytest

from quantgate.quantization.reading import FORMER_METHODS, KNOWN_METHODS, ONLINE_METHODS
from quantgate.vllm.facts import facts, nearest, releases
from quantgate.vllm.naming import naming_of, registered

# Names under which vLLM took a checkpoint of another method for itself on some platform.
_PLATFORM = {"cpu_awq", "cpu_gptq"}


def test_every_method_of_every_release_is_known() -> None:
    """A method that any release had is never called unknown."""
    ever = {method for release in releases() for method in facts(release).methods}

    assert ever - KNOWN_METHODS - ONLINE_METHODS - _PLATFORM == FORMER_METHODS


def test_a_release_older_than_all_has_the_facts_of_the_oldest() -> None:
    """There is always something to judge by."""
    assert nearest("0.6.3").release == releases()[0]
    assert nearest("9.0").release == releases()[-1]
    assert naming_of({"architectures": ["LlamaForCausalLM"]}, "0.6.3").known


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["LlamaForCausalLM"], "LlamaForCausalLM"),
        (["MyOwnForCausalLM", "LlamaForCausalLM"], "LlamaForCausalLM"),
        (["LlamaForTokenClassification"], "LlamaForCausalLM"),
        (["MyOwnForCausalLM"], None),
        ([None, 3], None),
        ([], None),
    ],
)
def test_the_first_known_architecture_counts(names: list[str], found: str | None) -> None:
    """Of several names the first in the registry, under any ending that vLLM tries."""
    assert registered({"architectures": names}, "0.33.0") == found


def test_a_class_that_renames_scales() -> None:
    """DeepSeek V4 calls the scales of its files by another name, and its experts by dtype."""
    config = {"architectures": ["DeepseekV4ForCausalLM"], "expert_dtype": "fp8"}
    naming = naming_of(config, "0.33.0")

    assert naming.renames_scales
    assert naming.leaf("layers.0.attn.wq_a", "scale") == "weight_scale_inv"
    assert naming.leaf("layers.0.ffn.experts.0.w1", "scale") == "weight_scale_inv"
    assert naming.leaf("layers.0.attn.wq_a", "weight") == "weight"
    fp4 = naming_of({"architectures": ["DeepseekV4ForCausalLM"]}, "0.33.0")
    assert fp4.leaf("layers.0.ffn.experts.0.w1", "scale") == "weight_scale"
