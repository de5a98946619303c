"""Which biases vLLM's classes have: a missing one stays uninitialised, a surplus one is dropped.

Observed with vLLM 0.32.0's own loader: a bias of q, k or v that the class has and the file lacks
is silent, also where only one of the three is missing; a surplus `.bias` is dropped silently by
every class but Llama 4's, whose hand-written loader raises KeyError, as DeepSeek's does for a
routed expert. Read from the `__init__` of
the classes, 0.10.2 to 0.33.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.vllm.structure import text_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.vllm.naming import Naming

_ALWAYS = frozenset(
    {
        *("Qwen2ForCausalLM", "Qwen2MoeForCausalLM"),
        *("Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"),
    }
)
# Classes that ask config.json, and the keys of which one must be true.
_BY_CONFIG: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("LlamaForCausalLM", "GraniteForCausalLM"), ("attention_bias", "bias")),
    **dict.fromkeys(
        (
            *("Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Glm4ForCausalLM", "Glm4MoeForCausalLM"),
            *("Gemma2ForCausalLM", "Gemma3ForCausalLM", "SeedOssForCausalLM"),
        ),
        ("attention_bias",),
    ),
}
_BY_HAND = frozenset({"Llama4ForCausalLM", "Llama4ForConditionalGeneration"})
# Observed; in a GPTQ checkpoint, experts have a bias that is dropped if nothing was loaded into it.
_EXPERTS_WITHOUT_BIAS = frozenset({"awq", "compressed-tensors", "fp8", "modelopt", "quark"})
_EXPERTS_BY_HAND = frozenset(
    {
        *_BY_HAND,
        *("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM"),
        "Glm4MoeLiteForCausalLM",
    }
)


def has_qkv_bias(naming: Naming, config: Mapping[str, Any]) -> bool | None:
    """Whether the class gives q, k and v of its text decoder a bias; None if that is not known."""
    if naming.architecture in _ALWAYS:
        return True
    keys = _BY_CONFIG.get(naming.architecture)
    if keys is None:
        return False if naming.architecture in _BY_HAND else None
    text = text_config(config)
    if "qkv_bias" in text:
        return None  # a class of its own kind, which reads this key instead
    return any(text.get(key) is True for key in keys)


def looks_biases_up(naming: Naming) -> bool:
    """Whether the class raises KeyError for a bias that it does not have."""
    return naming.architecture in _BY_HAND


def looks_expert_biases_up(naming: Naming, method: str) -> bool:
    """Whether the class raises KeyError for a bias of a routed expert quantized by a method."""
    return naming.architecture in _EXPERTS_BY_HAND and method in _EXPERTS_WITHOUT_BIAS
