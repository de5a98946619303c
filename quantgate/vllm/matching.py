"""Which scheme vLLM gives to a layer: targets, ignore lists and their matching rules, per method.

Each method matches in its own way against vLLM's names, so each has its own function. Source:
vLLM 0.33.0, layers/quantization/utils/quant_utils.py is_layer_skipped, utils/gptq_utils.py,
compressed_tensors/utils.py, and `get_quant_method` of the methods.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from quantgate.quantization.awq import AwqDeclaration
from quantgate.quantization.compressed_tensors import CompressedTensorsDeclaration
from quantgate.quantization.fp8 import Fp8Declaration
from quantgate.quantization.gptq import GptqDeclaration
from quantgate.vllm.layers import PACKED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quantgate.quantization.declaration import Declaration
    from quantgate.quantization.scheme import Scheme
    from quantgate.vllm.layers import Layer


@dataclass(frozen=True, slots=True)
class Decision:
    """What vLLM decides for one layer.

    Attributes:
        scheme: The scheme, None for a dense layer.
        by: The entry that decided (`ignore: lm_head`, `target: Linear`), for messages.
        disagree: "ignore" or "scheme" where the shards disagree, else empty.
        named: Shards that the list names, where they disagree.
        unnamed: The other shards, where they disagree.
        schemes: Shard name → scheme, where the shards have different schemes.
        unreadable: The declaration gives the layer a scheme, but one that vLLM refuses or that
            lacks a value; `scheme` is None then, and the layer is not dense.
    """

    scheme: Scheme | None
    by: str = ""
    disagree: str = ""
    named: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    schemes: tuple[tuple[str, Scheme | None], ...] = ()
    unreadable: bool = False


def _given(scheme: Scheme | None, by: str) -> Decision:
    """The decision of an entry that gives a scheme; None is one that could not be read."""
    return Decision(scheme, by, unreadable=scheme is None)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a method that derives its list from the headers sees there (facts of the whole model).

    `quantized` are modules that own any tensor of a type other than F16, BF16, F32; `dense` those
    that own nothing else.
    """

    quantized: frozenset[str]
    dense: frozenset[str]


def decide(declaration: Declaration, layer: Layer, stored: Stored) -> Decision:
    """The scheme that vLLM gives to a layer."""
    match declaration:
        case CompressedTensorsDeclaration():
            return _compressed_tensors(declaration, layer)
        case GptqDeclaration():
            return _gptq(declaration, layer, stored)
        case AwqDeclaration():
            return _awq(declaration, layer, stored)
        case Fp8Declaration():
            return _fp8(declaration, layer)
    return Decision(None)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def regex_matches(pattern: str, name: str) -> bool:
    """`re.match` as vLLM uses it, anchored at the start only; False if it does not compile."""
    compiled = _compiled(pattern)
    return compiled is not None and compiled.match(name) is not None


def equal_or_regex(entry: str, name: str) -> bool:
    """An entry equals the name, or is `re:` and a pattern that matches from its start."""
    if entry.startswith("re:"):
        return regex_matches(entry[3:], name)
    return entry == name


def _first(entries: Iterable[str], name: str) -> str | None:
    return next((e for e in entries if equal_or_regex(e, name)), None)


def _shards(layer: Layer) -> tuple[str, ...]:
    """The names that vLLM expands a fused layer to, whether the checkpoint has them or not."""
    return PACKED.get(layer.prefix.rpartition(".")[2], ())


def _agree(
    layer: Layer, listed: Callable[[str], bool], label: str, *, entry: str = ""
) -> Decision | bool:
    """Whether a list holds a layer: by its own name, or by all of its shards' names."""
    if listed(layer.prefix):
        return True
    shards = _shards(layer)
    if not shards:
        return False
    named = tuple(s for s in shards if listed(layer.shard_prefix(s)))
    if named and len(named) < len(shards):
        rest = tuple(s for s in shards if s not in named)
        return Decision(None, entry or label, "ignore", named, rest)
    return bool(named)


def _compressed_tensors(declared: CompressedTensorsDeclaration, layer: Layer) -> Decision:
    probe = layer
    if layer.cls == "RoutedExperts":
        return _compressed_tensors_experts(declared, layer)
    ignored = _agree(probe, lambda name: _first(declared.ignore, name) is not None, "ignore")
    if isinstance(ignored, Decision):
        return ignored
    if ignored:
        return Decision(None, "ignore")
    targets = declared.targets
    direct = _first(targets, layer.prefix)
    if direct is not None:
        return _given(declared.group_of_target(direct).scheme, f"target {direct}")
    shards = _shards(layer)
    hits = [_first(targets, layer.shard_prefix(s)) for s in shards]
    if shards and all(h is not None for h in hits):
        schemes = tuple(
            (s, declared.group_of_target(h).scheme)
            for s, h in zip(shards, hits, strict=True)
            if h is not None
        )
        if len({scheme for _, scheme in schemes}) > 1:
            # The first shard's target is returned; the others' schemes are never compared.
            return Decision(
                schemes[0][1],
                f"target {hits[0]}",
                "scheme",
                schemes=schemes,
                unreadable=any(scheme is None for _, scheme in schemes),
            )
        return _given(schemes[0][1], f"target {hits[0]}")
    by_class = _by_class(targets, layer.cls)
    if by_class is not None and any(hits) and not all(hits):
        named = tuple(s for s, h in zip(shards, hits, strict=True) if h is not None)
        other = tuple(s for s in shards if s not in named)
        scheme = declared.group_of_target(by_class).scheme
        schemes = tuple(
            (s, scheme if h is None else declared.group_of_target(h).scheme)
            for s, h in zip(shards, hits, strict=True)
        )
        if len({given for _, given in schemes}) > 1:
            return Decision(
                scheme,
                f"target {by_class}",
                "scheme",
                named,
                other,
                schemes,
                unreadable=any(given is None for _, given in schemes),
            )
    if by_class is not None:
        return _given(declared.group_of_target(by_class).scheme, f"target {by_class}")
    return Decision(None, "no target")


def _by_class(targets: Iterable[str], cls: str) -> str | None:
    """The class name equals the target, matches it, or contains it in any case."""
    # A "Linear" target stands for the experts as well (get_moe_method aliases it).
    name = "LinearRoutedExperts" if cls == "RoutedExperts" else cls
    for target in targets:
        if equal_or_regex(target, cls):
            return target
        if not target.startswith("re:") and target.lower() in name.lower():
            return target
    return None


def _compressed_tensors_experts(declared: CompressedTensorsDeclaration, layer: Layer) -> Decision:
    """Only expert 0 is looked up, by the names of its projections."""
    leaves = dict.fromkeys(m.rpartition(".")[2] for m in layer.modules)
    found: dict[str, Scheme | None] = {}
    unreadable = False
    for leaf in leaves:
        name = f"{layer.prefix}.0.{leaf}"
        if _first(declared.ignore, name) is not None:
            found[leaf] = None
            continue
        target = _first(declared.targets, name) or _by_class(declared.targets, layer.cls)
        found[leaf] = declared.group_of_target(target).scheme if target else None
        unreadable |= target is not None and found[leaf] is None
    schemes = tuple(found.items())
    distinct = {s for _, s in schemes}
    if len(distinct) > 1:
        return Decision(schemes[0][1], "expert 0", "scheme", schemes=schemes, unreadable=unreadable)
    scheme = next(iter(distinct), None)
    by = "ignore or no target" if scheme is None and not unreadable else "target"
    return Decision(scheme, by, unreadable=unreadable)


def _gptq(declared: GptqDeclaration, layer: Layer, stored: Stored) -> Decision:
    if layer.cls == "ParallelLMHead" and not declared.lm_head:
        return Decision(None, "lm_head is false")
    if layer.cls == "VocabParallelEmbedding":
        return Decision(None, "embeddings are never quantized")
    if layer.cls not in {"RoutedExperts", "ParallelLMHead"}:
        quantized = _gptq_listed(declared, layer, stored)
        if isinstance(quantized, Decision):
            return quantized
        if not quantized:
            return Decision(None, "not in modules_in_block_to_quantize")
    for rule in declared.dynamic:
        if regex_matches(rule.pattern, layer.prefix):
            if rule.skip:
                return Decision(None, f"dynamic -:{rule.pattern}")
            return _given(declared.scheme(rule.overrides), f"dynamic {rule.pattern}")
    return _given(declared.scheme(), "bits and group_size")


def _gptq_listed(declared: GptqDeclaration, layer: Layer, stored: Stored) -> Decision | bool:
    """Ask is_layer_gptq_quantized: substrings, or a list from the headers without them."""
    if declared.modules:
        listed = declared.modules
        return _every_shard(layer, lambda name: any(entry in name for entry in listed))
    if not stored.quantized:
        return True
    return _every_shard(layer, lambda name: name in stored.quantized)


def _every_shard(layer: Layer, quantized: Callable[[str], bool]) -> Decision | bool:
    shards = _shards(layer)
    # A layer that is fused on disk too is named like the fused layer, and found under that name.
    if not shards or (layer.modules == (layer.prefix,)):
        return quantized(layer.prefix)
    named = tuple(s for s in shards if quantized(layer.shard_prefix(s)))
    if named and len(named) < len(shards):
        rest = tuple(s for s in shards if s not in named)
        return Decision(None, "modules_in_block_to_quantize", "ignore", named, rest)
    return bool(named)


def _awq(declared: AwqDeclaration, layer: Layer, stored: Stored) -> Decision:
    if layer.cls == "VocabParallelEmbedding":
        return Decision(None, "embeddings are never quantized")
    if layer.cls == "ParallelLMHead":
        if not declared.lm_head:
            return Decision(None, "lm_head is false")
        return _given(declared.scheme(), "lm_head is true")
    if declared.not_converted:
        entries = declared.not_converted
        skipped = _agree(
            layer, lambda name: any(e in name for e in entries), "modules_to_not_convert"
        )
    else:
        skipped = _agree(layer, lambda n: _within(n, stored.dense), "modules_to_not_convert")
    if isinstance(skipped, Decision):
        return skipped
    if skipped:
        return Decision(None, "modules_to_not_convert")
    return _given(declared.scheme(), "bits and group_size")


def _within(name: str, modules: frozenset[str]) -> bool:
    """Whether the name or one of its parents is listed.

    vLLM tests for any substring; module names that are one without being a parent do not occur.
    """
    while name:
        if name in modules:
            return True
        name = name.rpartition(".")[0]
    return False


def _fp8(declared: Fp8Declaration, layer: Layer) -> Decision:
    if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding"}:
        return Decision(None, "never quantized by fp8")
    entries = frozenset(declared.ignored)
    if layer.cls == "RoutedExperts":
        skipped: Decision | bool = any("experts" in e and layer.prefix in e for e in entries)
    else:
        skipped = _agree(layer, entries.__contains__, declared.ignored_key)
    if isinstance(skipped, Decision):
        return skipped
    if skipped:
        return Decision(None, declared.ignored_key)
    return Decision(declared.scheme(), "every Linear")
