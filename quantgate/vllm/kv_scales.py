"""Scales of the KV cache: under which names vLLM takes them, and which it drops or refuses.

Observed with vLLM 0.32.0's own loader (24 spellings, 14 architectures, ten methods); the changes
between releases are read from the sources of the ten releases: model_loader/weight_utils.py
maybe_remap_kv_scale_name, `get_cache_scale` and later `get_cache_scale_mapper` of
layers/quantization/{base_config,fp8,compressed_tensors,quark}, models/utils.py AutoWeightsLoader.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from quantgate.quantization.declaration import Declaration

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

# Methods that give an attention a place for scales, and those that give it none.
_WITH_SCALES = frozenset({"compressed-tensors", "fp8", "quark", "modelopt", "modelopt_fp4"})
_WITHOUT_SCALES = frozenset({"gptq", "awq", "auto-round"})

_ATTENTION = frozenset({"self_attn", "attn", "attention", "self_attention", "mixer"})
_ROLE = re.compile(r"(q|k|v|kv)_(scale|zero_point)")
# What other tools and other releases call them.
_ALIKE = re.compile(
    r"(q|k|v|kv|prob)_(cache_)?(scales?|scale_inv|scaling_factor|amax|zero_point)|fp8_meta"
    r"|(q|k|v|kv|prob)_output_scale"
)


OBSERVED = frozenset(
    {
        *("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM"),
        *("Gemma2ForCausalLM", "Gemma4ForCausalLM", "MixtralForCausalLM", "Phi3ForCausalLM"),
        *("Llama4ForCausalLM", "DeepseekV3ForCausalLM", "Olmo2ForCausalLM", "Glm4MoeForCausalLM"),
        *("Qwen3_5ForConditionalGeneration",),
    }
)
"""Architectures whose loaders were seen to refuse names; others may pass over what they lack."""


class Fate(StrEnum):
    """What vLLM does with a tensor."""

    LOADED = "loaded"
    DROPPED = "dropped"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class KvScale:
    """One scale (or zero point) of a KV cache, or a tensor that looks like one.

    `role` is q, k, v, kv or prob, empty where the name tells nothing; `attention` is the module
    that it belongs to.
    """

    attention: str
    module: str
    leaf: str
    role: str
    fate: Fate
    dtype: str
    shape: tuple[int, ...]

    @property
    def tensor(self) -> str:
        """Its name in the file."""
        return f"{self.module}.{self.leaf}"

    @property
    def is_scale(self) -> bool:
        """Whether it is a scale and no zero point."""
        return not self.leaf.endswith("zero_point")


@dataclass(frozen=True, slots=True)
class KvScales:
    """What one release does with the KV scales of one checkpoint."""

    method: str | None
    version: tuple[int, ...]
    architecture: str
    latent: frozenset[str]

    @classmethod
    def of(
        cls, method: str | None, version: tuple[int, ...], architecture: str, modules: Iterable[str]
    ) -> KvScales | None:
        """None for a method of which it is not known; a method of None is no declaration."""
        if method and method not in _WITH_SCALES | _WITHOUT_SCALES:
            return None
        latent = (m.rpartition(".") for m in modules)
        owners = frozenset(
            p for p, _, last in latent if last.startswith(("kv_a_proj", "kv_b_proj"))
        )
        return cls(method or None, version, architecture, owners)

    def found(self, modules: Mapping[str, Leaves], root: str) -> Iterator[KvScale]:
        """Every one below `root`, in the order of the files."""
        for module, leaves in modules.items():
            if not module.startswith(f"{root}."):
                continue
            for leaf, (dtype, shape) in leaves.items():
                seen = self._named(module, leaf)
                if seen is not None:
                    attention, role, known = seen
                    fate = self._fate(attention, leaf, known=known)
                    yield KvScale(attention, module, leaf, role, fate, dtype, shape)

    def _named(self, module: str, leaf: str) -> tuple[str, str, bool] | None:
        """(attention, role, whether vLLM knows the spelling), None for any other tensor."""
        parent, _, last = module.rpartition(".")
        inside = parent.rpartition(".")[2] in _ATTENTION
        attention = module if last in _ATTENTION and not inside else parent
        if last not in _ATTENTION and not inside:
            return None
        role = _ROLE.fullmatch(leaf)
        if last in _ATTENTION and role is not None:
            return attention, role[1], self._knows(module, role)
        if leaf == "scale" and last in {"q", "k_cache", "v_cache"}:
            return attention, last[0], self.version >= (0, 23)
        if leaf == "output_scale":
            shard = last.removesuffix("_proj")
            return attention, shard if shard in {"q", "k", "v"} else "", self._outputs(shard)
        if leaf == "prob_output_scale":
            return attention, "prob", self._outputs("prob")
        if role is not None:
            shards = {f"{role[1]}_proj", "k_proj", "v_proj", "qkv_proj", "qkqkv_proj"}
            known = role[1] in {"k", "v"} and role[2] == "scale" and last in shards
            return attention, role[1], known
        alike = _ALIKE.fullmatch(leaf)
        if alike is not None:
            return attention, alike[1] or "", False
        # ModelOpt's own state, not exported: `k_bmm_quantizer._amax`.
        state = last.endswith("_quantizer") and leaf.startswith("_")
        return (attention, "", False) if state else None

    def _knows(self, module: str, role: re.Match[str]) -> bool:
        if module.endswith((".self_attn.attn", ".mixer.attn", ".attention.attn")):
            return role[1] != "kv"
        if role[1] == "q" or role[2] == "zero_point":
            return self.version >= (0, 16)
        return True

    def _outputs(self, shard: str) -> bool:
        """Whether `q_proj.output_scale` and the like have a place."""
        if self.method == "compressed-tensors":
            return shard in {"k", "v"} and self.version < (0, 16)
        return self.method in {"fp8", "quark"} and shard in {"q", "k", "v", "prob"}

    def _fate(self, attention: str, leaf: str, *, known: bool) -> Fate:
        if not known:
            # Latent attention of the hand-written loaders drops every name that ends so.
            ends = _ROLE.fullmatch(leaf) is not None and attention in self.latent
            return Fate.DROPPED if ends else Fate.REFUSED
        if attention in self.latent:
            return Fate.DROPPED
        if self.method is None:
            return Fate.DROPPED if self.version < (0, 27) else Fate.REFUSED
        if self.method in _WITHOUT_SCALES:
            # Its hand-written loader looks every name up.
            by_hand = self.architecture.startswith("Llama4") and self.version >= (0, 27)
            return Fate.REFUSED if by_hand else Fate.DROPPED
        zero_point = leaf.endswith("zero_point")
        return Fate.DROPPED if zero_point and self.method != "compressed-tensors" else Fate.LOADED


def declared_kv_cache(declaration: Declaration) -> str:
    """The key of the block that asks for a quantized KV cache, empty if none does.

    vLLM 0.33.0, utils/torch_utils.py get_kv_cache_quant_algo_string and quark.py from_config.
    """
    raw = declaration.raw
    nested = raw.get("quantization")
    for prefix, block in (("", raw), ("quantization.", nested)):
        for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
            if isinstance(block, dict) and block.get(key):
                return f"{prefix}{key}"
    export = raw.get("export")
    group = export.get("kv_cache_group") if isinstance(export, dict) else None
    return "export.kv_cache_group" if declaration.method == "quark" and group else ""
