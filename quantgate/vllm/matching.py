"""Which scheme vLLM gives to a layer: targets, ignore lists and their matching rules, per method.

Each method matches in its own way against vLLM's names, so each has its own function. How a
release matches is in `dialect`, what it calls things in `naming`. Source: vLLM 0.33.0,
`get_quant_method` of the methods under layers/quantization.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from quantgate.quantization.auto_round import AutoRoundDeclaration
from quantgate.quantization.awq import AwqDeclaration
from quantgate.quantization.bitsandbytes import BitsAndBytesDeclaration
from quantgate.quantization.compressed_tensors import CompressedTensorsDeclaration
from quantgate.quantization.declaration import ProblemKind
from quantgate.quantization.experts_int8 import ExpertsInt8Declaration
from quantgate.quantization.fbgemm import FbgemmDeclaration
from quantgate.quantization.fp8 import Fp8Declaration
from quantgate.quantization.gptq import GptqDeclaration
from quantgate.quantization.modelopt import (
    ALGORITHMS,
    BLOCK_EXPERTS,
    CODECS,
    ModelOptDeclaration,
)
from quantgate.quantization.mxfp4 import Mxfp4Declaration
from quantgate.quantization.quark import QuarkDeclaration
from quantgate.quantization.torchao import TorchAoDeclaration
from quantgate.vllm.dialect import (
    Dialect,
    Disagreement,
    Entries,
    PatternError,
    class_match,
    leaf,
    names_component,
    names_run,
    regex_matches,
    shard_name,
)
from quantgate.vllm.extra_config import ExtraConfig
from quantgate.vllm.naming import USUAL
from quantgate.vllm.recipes import Recipes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quantgate.quantization.declaration import Declaration
    from quantgate.quantization.quark import Config
    from quantgate.quantization.scheme import Scheme
    from quantgate.vllm.layers import Layer
    from quantgate.vllm.naming import Naming


@dataclass(frozen=True, slots=True)
class Decision:
    """What vLLM decides for one layer.

    Attributes:
        scheme: The scheme, None for a dense layer.
        by: The entry that decided (`ignore`, `target Linear`), for messages.
        disagree: "ignore" or "scheme" where the shards disagree, else empty.
        named: Shards that the list names, where they disagree.
        unnamed: The other shards, where they disagree.
        schemes: Shard name → scheme, where the shards have different schemes.
        unreadable: The declaration gives the layer a scheme, but one that vLLM refuses or that
            lacks a value; `scheme` is None then, and the layer is not dense.
        error: What vLLM raises instead of deciding, empty if it decides.
    """

    scheme: Scheme | None
    by: str = ""
    disagree: str = ""
    named: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    schemes: tuple[tuple[str, Scheme | None], ...] = ()
    unreadable: bool = False
    error: str = ""


def _given(scheme: Scheme | None, by: str) -> Decision:
    """The decision of an entry that gives a scheme; None is one that could not be read."""
    return Decision(scheme, by, unreadable=scheme is None)


_MODELOPT_TOWERS = ("vision_tower", "vision_model", "vit_large_projector")


@dataclass(frozen=True, slots=True)
class Stored:
    """What a method that derives its list from the headers sees there (facts of the whole model).

    `quantized` are modules that own any tensor of a type other than F16, BF16, F32; `dense` those
    that own nothing else. The names are the checkpoint's.
    """

    quantized: frozenset[str]
    dense: frozenset[str]


class Matcher:
    """Decides the layers of one checkpoint in one release.

    The lists of the declaration are renamed once, as the release does it.
    """

    def __init__(
        self, declaration: Declaration, naming: Naming, dialect: Dialect, stored: Stored
    ) -> None:
        self._declaration = declaration
        self._dialect = dialect
        self._packed = naming.packed
        self._naming = naming
        self._stored = stored
        self._origin: dict[str, str] = {}
        match declaration:
            case CompressedTensorsDeclaration():
                self._ignore = self._renamed(declaration.ignore, dotted_only=True)
                self._targets = self._renamed(declaration.targets, dotted_only=True)
            case AwqDeclaration():
                self._ignore = self._renamed(declaration.not_converted)
                self._derived = self._modules(stored.dense)
            case Fp8Declaration():
                self._ignore = self._renamed(declaration.ignored)
            case FbgemmDeclaration():
                self._ignore = Entries(declaration.not_converted)
            case ModelOptDeclaration():
                self._ignore = self._renamed(self._modelopt_excluded(declaration))
                layers = ((naming.entry(n), a) for n, a in declaration.layers.items())
                self._recipes = Recipes({n: a for n, a in layers if n is not None})
            case AutoRoundDeclaration(settings=settings) if settings is not None:
                renamed = ((naming.entry(n), e) for n, e in declaration.extra.items())
                extra = {n: e for n, e in renamed if n is not None}
                blocks = (naming.entry(b) for b in declaration.blocks)
                self._extra = ExtraConfig(settings, extra, [b for b in blocks if b is not None])
            case QuarkDeclaration():
                self._ignore = self._renamed(declaration.excluded)
                named = ((naming.entry(n), c) for n, c in declaration.by_name)
                self._configs = tuple((n, c) for n, c in named if n is not None)
            case GptqDeclaration():
                self._ignore = self._renamed(declaration.modules)
                self._derived = self._modules(stored.quantized)

    def _renamed(self, entries: Iterable[str], *, dotted_only: bool = False) -> Entries:
        """The entries in vLLM's names; those that the release drops are gone."""
        renamed = []
        for entry in entries:
            new = self._naming.entry(entry, dotted_only=dotted_only)
            if new is not None:
                renamed.append(new)
                self._origin.setdefault(new, entry)
        return Entries(renamed)

    def _modules(self, names: Iterable[str]) -> frozenset[str]:
        renamed = (self._naming.entry(n) for n in names)
        return frozenset(n for n in renamed if n is not None)

    def decide(self, layer: Layer) -> Decision:
        """The scheme that vLLM gives to a layer; a broken pattern decides nothing."""
        layer = replace(layer, prefix=self._naming.announced(layer.prefix))
        name = leaf(layer.prefix)
        # A usual name is that of another part's layer as well (a tower's qkv_proj).
        if name in self._naming.dense and not (layer.shards and name in USUAL):
            return Decision(None, "vLLM builds it without quantization")
        try:
            match self._declaration:
                case CompressedTensorsDeclaration() as declared:
                    return self._compressed_tensors(declared, layer)
                case GptqDeclaration() as declared:
                    return self._gptq(declared, layer)
                case AwqDeclaration() as declared:
                    return self._awq(declared, layer)
                case Fp8Declaration() as declared:
                    return self._fp8(declared, layer)
                case ModelOptDeclaration() as declared:
                    return self._modelopt(declared, layer)
                case Mxfp4Declaration() as declared:
                    if layer.cls != "RoutedExperts":
                        return Decision(None, "mxfp4 quantizes experts only")
                    fused = layer.modules[0].rpartition(".")[2] == "experts"
                    return Decision(declared.scheme(fused=fused), "every expert")
                case AutoRoundDeclaration() as declared:
                    return self._auto_round(declared, layer)
                case BitsAndBytesDeclaration() as declared:
                    return _bitsandbytes(declared, layer)
                case TorchAoDeclaration() as declared:
                    return self._torchao(declared, layer)
                case FbgemmDeclaration() as declared:
                    return self._fbgemm(declared, layer)
                case ExpertsInt8Declaration():
                    return Decision(None, "experts_int8 reads dense weights")
                case QuarkDeclaration() as declared:
                    return self._quark(declared, layer)
        except PatternError as error:
            return Decision(None, f"pattern {error.pattern}", unreadable=True, error=str(error))
        return Decision(None)

    def _compressed_tensors(self, declared: CompressedTensorsDeclaration, layer: Layer) -> Decision:
        if layer.cls == "RoutedExperts":
            return self._compressed_tensors_experts(declared, layer)
        if layer.cls == "ParallelLMHead" and not self._dialect.compressed_head:
            return Decision(None, "this release never quantizes the head")
        ignored = self._dialect.ignored(layer.prefix, self._ignore, self._packed)
        if isinstance(ignored, Disagreement):
            return _disagreement(ignored, "ignore")
        if ignored:
            return Decision(None, "ignore")
        target = self._dialect.target(layer.prefix, layer.cls, self._targets, self._packed)
        if target is None:
            # Without any target no release looks for one (get_scheme).
            lenient = self._dialect.unmatched_is_dense or not declared.targets
            error = "" if lenient else "Unable to find matching target"
            return Decision(None, "no target", error=error)
        scheme = self._scheme(declared, target)
        by = f"target {self._origin[target]}"
        shards = self._dialect.target_shards(layer.prefix, self._packed)
        hits = [self._targets.first(s) for s in shards]
        if self._targets.first(layer.prefix) is None and any(hits):
            schemes = tuple(
                (leaf(s), self._scheme(declared, h) if h is not None else scheme)
                for s, h in zip(shards, hits, strict=True)
            )
            if len({given for _, given in schemes}) > 1:
                # One target decides; the shards' own schemes are never compared.
                partly = not all(hits)
                named = tuple(leaf(s) for s, h in zip(shards, hits, strict=True) if h)
                rest = tuple(leaf(s) for s, h in zip(shards, hits, strict=True) if not h)
                return Decision(
                    scheme,
                    by,
                    "scheme",
                    named if partly else (),
                    rest,
                    schemes,
                    unreadable=any(given is None for _, given in schemes),
                )
        return _given(scheme, by)

    def _scheme(self, declared: CompressedTensorsDeclaration, target: str) -> Scheme | None:
        return declared.group_of_target(self._origin[target]).scheme

    def _compressed_tensors_experts(
        self, declared: CompressedTensorsDeclaration, layer: Layer
    ) -> Decision:
        """Only expert 0 is looked up, by the names of its projections (get_moe_method)."""
        found: dict[str, Scheme | None] = {}
        unreadable = False
        for projection in dict.fromkeys(leaf(m) for m in layer.modules):
            name = f"{layer.prefix}.0.{projection}"
            if self._ignore.first(name) is not None:
                found[projection] = None
                continue
            # A "Linear" target stands for the experts as well.
            target = self._targets.first(name) or class_match(
                self._targets.all, "LinearRoutedExperts"
            )
            found[projection] = self._scheme(declared, target) if target else None
            unreadable |= target is not None and found[projection] is None
        schemes = tuple(found.items())
        distinct = {s for _, s in schemes}
        if len(distinct) > 1:
            return Decision(
                schemes[0][1], "expert 0", "scheme", schemes=schemes, unreadable=unreadable
            )
        scheme = next(iter(distinct), None)
        by = "ignore or no target" if scheme is None and not unreadable else "target"
        return Decision(scheme, by, unreadable=unreadable)

    def _gptq(self, declared: GptqDeclaration, layer: Layer) -> Decision:
        if layer.cls == "ParallelLMHead" and not declared.lm_head:
            return Decision(None, "lm_head is false")
        if layer.cls == "VocabParallelEmbedding":
            return Decision(None, "embeddings are never quantized")
        if layer.cls != "RoutedExperts":
            quantized = self._gptq_listed(declared, layer)
            if isinstance(quantized, Disagreement):
                return _disagreement(quantized, "modules_in_block_to_quantize")
            if not quantized:
                return Decision(None, "not in modules_in_block_to_quantize")
        for rule in declared.dynamic:
            if regex_matches(rule.pattern, layer.prefix):
                if rule.skip:
                    return Decision(None, f"dynamic -:{rule.pattern}")
                return _given(declared.scheme(rule.overrides), f"dynamic {rule.pattern}")
        return _given(declared.scheme(), "bits and group_size")

    def _gptq_listed(self, declared: GptqDeclaration, layer: Layer) -> bool | Disagreement:
        if declared.modules:
            return self._dialect.gptq_listed(layer.prefix, self._ignore.all, self._packed)
        if not self._dialect.gptq_lists or not self._derived:
            return True
        return self._dialect.unanimous(
            layer.prefix, self._packed, lambda name: contains_any(name, self._derived)
        )

    def _awq(self, declared: AwqDeclaration, layer: Layer) -> Decision:
        if layer.cls == "VocabParallelEmbedding":
            return Decision(None, "embeddings are never quantized")
        if layer.cls == "ParallelLMHead" and not declared.lm_head:
            return Decision(None, "lm_head is false")
        skipped: bool | Disagreement
        if declared.not_converted:
            entries = self._ignore.all
            skipped = self._dialect.skipped(layer.prefix, entries, self._packed, "substring")
        else:
            derived = self._derived
            skipped = contains_any(layer.prefix, derived) or self._dialect.unanimous(
                layer.prefix, self._packed, lambda name: contains_any(name, derived)
            )
        if isinstance(skipped, Disagreement):
            return _disagreement(skipped, "modules_to_not_convert")
        if skipped:
            return Decision(None, "modules_to_not_convert")
        return _given(declared.scheme(), "bits and group_size")

    def _fp8(self, declared: Fp8Declaration, layer: Layer) -> Decision:
        if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding"}:
            return Decision(None, "never quantized by fp8")
        skipped = self._dialect.skipped(layer.prefix, self._ignore.all, self._packed)
        if isinstance(skipped, Disagreement):
            return _disagreement(skipped, declared.ignored_key)
        if skipped:
            return Decision(None, declared.ignored_key)
        return Decision(declared.scheme(), "every Linear")

    def _fbgemm(self, declared: FbgemmDeclaration, layer: Layer) -> Decision:
        """As fp8, of Linears only; the list is not renamed (no apply_vllm_mapper)."""
        if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding", "RoutedExperts"}:
            return Decision(None, "fbgemm_fp8 quantizes Linears only")
        skipped = self._dialect.skipped(layer.prefix, self._ignore.all, self._packed)
        if isinstance(skipped, Disagreement):
            return _disagreement(skipped, "modules_to_not_convert")
        if skipped:
            return Decision(None, "modules_to_not_convert")
        return Decision(declared.scheme(), "every Linear")

    def _modelopt_excluded(self, declared: ModelOptDeclaration) -> tuple[str, ...]:
        """The list as this release reads it: `path*` stands for `path` and `path.*`."""
        if declared.excluded_key == "exclude_modules" and not self._dialect.modelopt_flat_excludes:
            return ()
        if not self._dialect.modelopt_wildcards:
            return declared.excluded
        return tuple(
            part
            for entry in declared.excluded
            for part in (
                (entry[:-1], f"{entry[:-1]}.*")
                if len(entry) >= 2 and entry[-1] == "*" and entry[-2] != "."
                else (entry,)
            )
        )

    def _modelopt(self, declared: ModelOptDeclaration, layer: Layer) -> Decision:
        embedding = layer.cls == "VocabParallelEmbedding"
        if embedding and not declared.mixed:
            return Decision(None, "embeddings are never quantized")
        if layer.cls == "ParallelLMHead" and not self._dialect.modelopt_lm_head:
            return Decision(None, "lm_head is never quantized by this release")
        excluded = self._dialect.modelopt_excluded(layer.prefix, self._ignore.all, self._packed)
        if isinstance(excluded, Disagreement):
            return _disagreement(excluded, declared.excluded_key)
        if excluded:
            return Decision(None, declared.excluded_key)
        experts = layer.cls == "RoutedExperts"
        if declared.mixed:
            shards = self._packed.get(leaf(layer.prefix), ())
            found = self._recipes.find(layer.prefix, shards)
            if len(found) > 1:
                schemes = tuple((s, declared.scheme(a)) for s, a in found)
                return _refused("quantized_layers", schemes, "Mixed quant_algo within fused layer")
            algorithm = found[0][1] if found else ""
            codecs = CODECS if self._dialect.modelopt_codecs else ()
            blocks = BLOCK_EXPERTS if experts and self._dialect.modelopt_block_experts else ()
            if algorithm in codecs or algorithm in blocks:
                return _given(declared.scheme(algorithm, experts=experts), "quantized_layers")
            # Other algorithms leave a Linear dense, and these an embedding.
            if algorithm in ALGORITHMS and not embedding:
                return _given(declared.scheme(algorithm, experts=experts), "quantized_layers")
            return Decision(None, "quantized_layers", unreadable=bool(algorithm) and experts)
        if any(tower in layer.prefix for tower in _MODELOPT_TOWERS):
            return Decision(None, "vision towers are never quantized")
        weights_only = declared.weights_only and self._dialect.modelopt_weights_only
        algorithm = "W4A16_NVFP4" if weights_only else declared.algorithm
        return _given(declared.scheme(algorithm, experts=experts), "quant_algo")

    def _quark(self, declared: QuarkDeclaration, layer: Layer) -> Decision:
        if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding"}:
            return Decision(None, "never quantized by quark")
        experts = layer.cls == "RoutedExperts"
        below = f"{layer.prefix}."
        if experts and any(e == layer.prefix or e.startswith(below) for e in self._ignore.all):
            return Decision(None, "exclude")
        excluded = self._dialect.ignored(layer.prefix, self._ignore, self._packed)
        if isinstance(excluded, Disagreement):
            return _disagreement(excluded, "exclude")
        if excluded:
            return Decision(None, "exclude")
        names = self._packed.get(leaf(layer.prefix), ())
        found = {s: self._quark_config(declared, shard_name(layer.prefix, s)) for s in names}
        if len({c.text if c else "" for c in found.values()}) > 1:
            schemes = tuple((s, c.scheme if c else None) for s, c in found.items())
            error = "Found a different quantization configuration for"
            return _refused("layer_quant_config", schemes, error)
        config = next(iter(found.values())) if found else self._quark_config(declared, layer.prefix)
        if config is None:
            return Decision(None, "global_quant_config", unreadable=True)
        by = "global_quant_config" if config is declared.everywhere else "layer_quant_config"
        return _given(config.experts if experts else config.scheme, by)

    def _quark_config(self, declared: QuarkDeclaration, name: str) -> Config | None:
        """The first entry for a name; one without `*` counts if it *contains* the name."""
        for pattern, config in self._configs:
            if fnmatchcase(name, pattern) if "*" in pattern else name in pattern:
                return config
        return declared.everywhere

    def _torchao(self, declared: TorchAoDeclaration, layer: Layer) -> Decision:
        """Names are those of vLLM's own layers, fused ones included, and are never renamed."""
        if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding", "RoutedExperts"}:
            return Decision(None, "torchao quantizes Linears only")
        if any(names_run(entry, layer.prefix) for entry in declared.skipped):
            return Decision(None, "modules_to_not_convert")
        if any(p.kind is not ProblemKind.VALUE for p in declared.problems):
            return Decision(None, "quant_type", unreadable=True)
        if not declared.per_module:
            recipe = declared.recipe
            return _given(recipe.scheme if recipe else None, "every Linear")
        if layer.prefix in declared.by_name:
            recipe = declared.by_name[layer.prefix]
            return _given(recipe.scheme if recipe else None, layer.prefix)
        for pattern, recipe in declared.by_name.items():
            if not pattern.startswith("re:") or not self._dialect.torchao_patterns:
                continue
            if regex_matches(f"(?:{pattern.removeprefix('re:')})$", layer.prefix):
                return _given(recipe.scheme if recipe else None, pattern)
        if declared.recipe is None:
            return Decision(None, "no entry of module_fqn_to_config")
        return _given(declared.recipe.scheme, "_default")

    def _auto_round(self, declared: AutoRoundDeclaration, layer: Layer) -> Decision:
        if layer.cls == "VocabParallelEmbedding":
            return Decision(None, "embeddings are never quantized")
        if declared.settings is None:
            return Decision(None, "bits and group_size", unreadable=True)
        found = self._extra.settings(layer, self._packed)
        schemes = tuple((n, None if s.dense else declared.scheme(s)) for n, s in found)
        if len(found) > 1:
            return _refused("extra_config", schemes, "requires consistent quant config for")
        (_, settings), (_, scheme) = found[0], schemes[0]
        if settings.dense:
            return Decision(None, "extra_config or block_name_to_quantize")
        return _given(scheme, "bits and group_size")


def _bitsandbytes(declared: BitsAndBytesDeclaration, layer: Layer) -> Decision:
    """The list is asked for components and leading paths of vLLM's own name, never renamed."""
    if layer.cls in {"ParallelLMHead", "VocabParallelEmbedding"}:
        return Decision(None, "never quantized by bitsandbytes")
    scheme = None if declared.problems else declared.scheme()
    if layer.cls == "RoutedExperts":
        # The list is not asked for experts.
        return _given(None if declared.eight else scheme, "every expert")
    if any(names_component(entry, layer.prefix) for entry in declared.skipped):
        return Decision(None, "llm_int8_skip_modules")
    return _given(scheme, "every Linear")


def _refused(by: str, schemes: tuple[tuple[str, Scheme | None], ...], error: str) -> Decision:
    """Shards of different schemes, where vLLM compares them."""
    return Decision(schemes[0][1], by, "scheme", schemes=schemes, error=error)


def _disagreement(found: Disagreement, key: str) -> Decision:
    return Decision(None, key, "ignore", found.named, found.unnamed)


def contains_any(name: str, modules: frozenset[str]) -> bool:
    """Whether any of the modules is a run of components of the name.

    vLLM tests every module name as a substring; names that are one without being a run of whole
    components do not occur, and a set can be asked for the runs at once.
    """
    parts = name.split(".")
    return any(
        ".".join(parts[i:j]) in modules
        for i in range(len(parts))
        for j in range(i + 1, len(parts) + 1)
    )
