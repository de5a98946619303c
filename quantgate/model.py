"""Everything a rule may look at: the facts of one checkpoint, and what vLLM makes of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.tensor_names import split_name
from quantgate.quantization.base_model import base_sizes, read_base
from quantgate.quantization.compare import compare
from quantgate.quantization.declaration import Declaration, ProblemKind
from quantgate.quantization.foreign import foreign_modules
from quantgate.quantization.observed import is_quantized
from quantgate.quantization.reading import KNOWN_METHODS, MISTRAL, read_declaration
from quantgate.quantization.recognise import meant_method
from quantgate.quantization.sizes import CONFIG, witness_sizes
from quantgate.quantization.torchao_metadata import read_files
from quantgate.quantization.transforms import KEY, transform_weights
from quantgate.targets import Target
from quantgate.vllm.built import built_for
from quantgate.vllm.dialect import Dialect
from quantgate.vllm.kv_scales import KvScales
from quantgate.vllm.layers import Layer, build_layers, is_router
from quantgate.vllm.loading import slicing_of
from quantgate.vllm.matching.lists import Stored
from quantgate.vllm.matching.matcher import Matcher
from quantgate.vllm.naming import naming_of
from quantgate.vllm.resolution import resolve
from quantgate.vllm.state_space import state_spaces
from quantgate.vllm.structure import find_decoder
from quantgate.vllm.tied import HEAD, builds_tied_head

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping

    from quantgate.checkpoint import Checkpoint
    from quantgate.checkpoint.base import Base
    from quantgate.quantization.base_model import BaseModel
    from quantgate.quantization.declaration import Problem
    from quantgate.quantization.difference import Difference, Kind
    from quantgate.quantization.foreign import Format
    from quantgate.quantization.scheme import Scheme, Sizes
    from quantgate.quantization.torchao_metadata import FileMetadata
    from quantgate.report.model import ResolvedTarget
    from quantgate.vllm.built import Built
    from quantgate.vllm.kv_scales import KvScale
    from quantgate.vllm.matching.decision import Decision
    from quantgate.vllm.naming import Naming
    from quantgate.vllm.state_space import StateSpace
    from quantgate.vllm.structure import Decoder

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

_FLOATS = frozenset({"F16", "BF16", "F32"})
# Draft layers for speculative decoding; the main model never loads them.
_DRAFT = frozenset({"mtp", "eh_proj"})
_KV_SCALES = frozenset({"k_scale", "v_scale", "q_scale", "kv_scale", "output_scale"})
_TOWERS = ("vision", "visual", "audio", "speech", "projector", "multi_modal")

# Methods whose quantized towers were held against vLLM's loader.
_SEEN_IN_TOWERS = frozenset({"compressed-tensors", "fp8", "modelopt", "quark", "gptq", "awq"})

# What is derived from the files alone, whatever the target.
_OF_THE_FILES = frozenset(
    {
        *("declaration", "modules", "transform_weights", "linears", "_stored", "built", "sizes"),
        *("decoder", "quantized_modules", "foreign", "torchao_files", "state_spaces"),
    }
)


@dataclass(frozen=True)
class Model:
    """One checkpoint seen with one target's eyes. Everything else is derived, once, on demand."""

    checkpoint: Checkpoint
    target: Target = Target()  # noqa: RUF009
    base: Base | None = None

    def seen_by(self, target: Target) -> Model:
        """The same checkpoint for another target; what the two have in common is kept.

        Two releases that name and match alike have everything in common.
        """
        if target == self.target:
            return self
        other = Model(self.checkpoint, target, self.base)
        alike = (self.naming, self.dialect) == (other.naming, other.dialect)
        kept = self.__dict__.keys() if alike else self.__dict__.keys() & _OF_THE_FILES
        own = {"checkpoint", "target", "base", "naming", "dialect", "kv_scales"}
        other.__dict__.update({k: self.__dict__[k] for k in kept if k not in own})
        return other

    @property
    def view(self) -> tuple[Naming, Dialect]:
        """What decides everything but the engine's limits: equal for targets that see alike."""
        return self.naming, self.dialect

    @cached_property
    def declaration(self) -> Declaration | None:
        """The quantization block that vLLM uses, None if it takes the model for unquantized."""
        if self.checkpoint.mistral:
            return self._declared_by_mistral()
        sides = {
            name: file.value
            for name, file in self.checkpoint.configs.items()
            if not file.error and name != "config.json"
        }
        return read_declaration(self.checkpoint.config, sides)

    def _declared_by_mistral(self) -> Declaration | None:
        """The block of Mistral's own format, of which only that it is there is known."""
        params = self.checkpoint.configs["params.json"].mapping
        key = next((k for k in ("quantization", "quantization_config") if params.get(k)), "")
        return (
            Declaration(method=MISTRAL, file="params.json", path=f"/{key}", raw={}, modelled=False)
            if key
            else None
        )

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What the target's release refuses of the declaration."""
        declaration = self.declaration
        return (
            tuple(p for p in declaration.problems if p.refused_by(self.target.version))
            if declaration is not None
            else ()
        )

    @cached_property
    def modules(self) -> Mapping[str, Leaves]:
        """Module → leaf → (dtype, shape), of the weight files that vLLM reads."""
        modules: dict[str, dict[str, tuple[str, tuple[int, ...]]]] = {}
        for tensor in self.checkpoint.tensors.values():
            module, leaf = split_name(tensor.name)
            modules.setdefault(module, {})[leaf] = (tensor.dtype, tensor.shape)
        return modules

    @cached_property
    def naming(self) -> Naming:
        """What the target's release calls the modules of this checkpoint."""
        return naming_of(self.checkpoint.config, self.target.release)

    @cached_property
    def dialect(self) -> Dialect:
        """How the target's release matches names against lists."""
        declaration = self.declaration
        return Dialect.of(self.target.version, declaration.method if declaration else "")

    @cached_property
    def linears(self) -> tuple[str, ...]:
        """Modules that are Linear layers: quantized in any way, or with a dense 2-D weight."""
        return tuple(
            name
            for name, leaves in self.modules.items()
            if name not in self.transform_weights and _is_linear(name, leaves)
        )

    @cached_property
    def transform_weights(self) -> frozenset[str]:
        """Modules that hold the weight of a transform, and are no layers themselves."""
        declaration = self.declaration
        if declaration is None or declaration.method != "compressed-tensors":
            return frozenset()
        return transform_weights(self.modules, declared=bool(declaration.raw.get(KEY)))

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The Linear modules put together into vLLM's layers."""
        return build_layers(self.linears, self.naming)

    @cached_property
    def decisions(self) -> Mapping[str, Decision]:
        """What vLLM decides for each layer, by its prefix; empty without a declaration."""
        declaration = self.declaration
        if declaration is None or not declaration.modelled:
            return {}
        return {layer.prefix: self._matcher.decide(layer) for layer in self.layers}

    @cached_property
    def _matcher(self) -> Matcher:
        declaration = self.declaration
        assert declaration is not None  # noqa: S101  asked only where there is one
        return Matcher(declaration, self.naming, self.dialect, self._stored)

    @cached_property
    def tied_head(self) -> Decision | None:
        """What vLLM decides for an output head that it ties to the embedding and no file holds.

        None where there is no such head, or that is not known.
        """
        declaration, built = self.declaration, self.built
        if declaration is None or not declaration.modelled or built is None:
            return None
        if HEAD in self.modules or not builds_tied_head(self.naming, built):
            return None
        return self._matcher.decide(Layer(HEAD, "ParallelLMHead", (), (HEAD,)))

    @cached_property
    def reaches_nothing(self) -> bool:
        """Quantized modules are stored, and the declaration makes every layer dense."""
        decisions = self.decisions.values()
        return bool(decisions and self.quantized_modules) and not any(
            d.scheme is not None or d.unreadable or d.disagree for d in decisions
        )

    @cached_property
    def other_method(self) -> str:
        """The method whose keys and tensors these are, if it is not the declared one.

        Empty if the block has the keys of the declared method.
        """
        declaration = self.declaration
        if declaration is None or not declaration.modelled:
            return ""
        if not any(p.kind is ProblemKind.MISSING for p in declaration.problems):
            return ""
        meant = meant_method(declaration.raw, self.modules)
        return meant if meant in KNOWN_METHODS and meant != declaration.method else ""

    @cached_property
    def resolution(self) -> tuple[ResolvedTarget, ...]:
        """Where every name of the declaration leads."""
        return resolve(self)

    @cached_property
    def _stored(self) -> Stored:
        quantized: set[str] = set()
        dense: set[str] = set()
        for name, leaves in self.modules.items():
            kinds = {dtype for dtype, _ in leaves.values()}
            (dense if kinds <= _FLOATS else quantized).add(name)
        return Stored(frozenset(quantized), frozenset(dense))

    @cached_property
    def built(self) -> Built | None:
        """What vLLM builds for config.json, None for an architecture of which that is not known."""
        return None if self.checkpoint.mistral else built_for(self.checkpoint.config)

    @cached_property
    def sizes(self) -> Callable[[str], Sizes]:
        """What independent witnesses know of a module's size.

        config.json comes first, since vLLM allocates after it, then the base model, then the
        neighbours.
        """
        others = witness_sizes(self.checkpoint.config, self.modules, self.built)
        base = self.base_model
        if base is None or not base.usable:
            return others
        known = base_sizes(base, self.naming.module)

        def best(module: str) -> Sizes:
            found = others(module)
            if found.witness == CONFIG:
                return found
            of_base = known(module)
            return of_base if of_base.n is not None else found

        return best

    @cached_property
    def state_spaces(self) -> Mapping[str, StateSpace]:
        """Name of an `in_proj` → the state space that it belongs to."""
        return state_spaces(self.checkpoint.config, self.modules)

    @cached_property
    def base_model(self) -> BaseModel | None:
        """The base model as a witness, None if there is none that could be read."""
        base = self.base.checkpoint if self.base is not None else None
        return None if base is None else read_base(base, self.modules, self.naming.module)

    @cached_property
    def schemes(self) -> Mapping[str, Scheme | None]:
        """Checkpoint module → declared scheme, for the modules that a verdict is possible on.

        Left out: layers whose shards disagree, schemes that could not be read, declarations that
        reach no layer or bear another method's name (rules of their own speak of them), and
        modules that vLLM builds without quantization in most models whatever the config says, if
        they are stored dense (other towers, draft layers, and routers unless it is known that the
        class quantizes them).
        """
        declared: dict[str, Scheme | None] = {}
        if self.reaches_nothing or self.other_method:
            return declared
        for layer in self.layers:
            decision = self.decisions.get(layer.prefix)
            if decision is None or decision.disagree or decision.unreadable:
                continue
            declared.update(dict.fromkeys(layer.modules, decision.scheme))
        return {
            module: scheme
            for module, scheme in declared.items()
            if is_quantized(self.modules[module])
            or not (self._is_draft(module) or (scheme is not None and self._built_dense(module)))
        }

    def _built_dense(self, module: str) -> bool:
        """Whether vLLM builds a module without quantization, or may, whatever the config says."""
        if is_router(module):
            entry = self.built.entry(module) if self.built else None
            return entry is None or "size" not in entry or bool(entry.get("dense"))
        declaration = self.declaration
        seen = declaration is not None and declaration.method in _SEEN_IN_TOWERS
        return any(t in module for t in _TOWERS) and not (seen and self.naming.quantizes_towers)

    def _is_draft(self, module: str) -> bool:
        """Whether only a draft model for speculative decoding loads a module."""
        decoder = self.decoder
        in_layers = decoder is not None and decoder.is_draft(module)
        return in_layers or not _DRAFT.isdisjoint(module.split("."))

    @cached_property
    def differences(self) -> Mapping[Kind, tuple[tuple[str, Difference], ...]]:
        """Kind → (checkpoint module, difference), for every module with a declared scheme.

        Modules of equal shapes and declaration are compared once: a mixture of experts has tens
        of thousands of modules of a handful of shapes.
        """
        found: dict[Kind, list[tuple[str, Difference]]] = defaultdict(list)
        seen: dict[Any, tuple[Difference, ...]] = {}
        renamed = self.naming.renames_scales
        for module, scheme in self.schemes.items():
            leaves = self.modules[module]
            if renamed:
                leaves = {self.naming.leaf(module, leaf): at for leaf, at in leaves.items()}
            sizes, slicing = self.sizes(module), slicing_of(module)
            # Schemes are shared objects that live as long as this loop: the id is as good a key.
            known = (sizes.n, sizes.k, sizes.witness, sizes.disputed)
            key = (tuple(leaves.items()), id(scheme), known, slicing)
            result = seen.get(key)
            if result is None:
                result = seen[key] = compare(leaves, scheme, sizes, slicing)
            for difference in result:
                found[difference.kind].append((module, difference))
        return {kind: tuple(pairs) for kind, pairs in found.items()}

    def differing(self, *kinds: Kind) -> Iterator[tuple[str, Difference]]:
        """The (module, difference) pairs of these kinds."""
        for kind in kinds:
            yield from self.differences.get(kind, ())

    @cached_property
    def decoder(self) -> Decoder | None:
        """The skeleton of the text decoder, None where there is no list of layers."""
        if self.checkpoint.mistral:
            return None  # other names, and counts in params.json
        # A module that holds nothing but scales of the KV cache is not asked of other layers.
        # Nor is the weight of a transform, which layers of equal size share.
        loose = {m for m, leaves in self.modules.items() if leaves.keys() <= _KV_SCALES}
        loose |= self.transform_weights
        return find_decoder(self.checkpoint.config, self.modules, loose)

    @cached_property
    def kv_scales(self) -> tuple[KvScale, ...]:
        """The scales of the text decoder's KV cache and what the target's release does with them.

        Empty for a method of which that is not known.
        """
        declaration, decoder = self.declaration, self.decoder
        if decoder is None or not self.naming.known:
            return ()
        method = declaration.method if declaration is not None else None
        known = KvScales.of(method, self.target.version, self.naming.architecture, self.modules)
        return tuple(known.found(self.modules, decoder.root)) if known is not None else ()

    @cached_property
    def foreign(self) -> Counter[Format]:
        """How many modules there are of each format that is another engine's."""
        return foreign_modules(self.modules)

    @cached_property
    def torchao_files(self) -> Mapping[str, FileMetadata]:
        """Weight file → what torchao's metadata in its header says."""
        return read_files(self.checkpoint.loaded_files)

    @cached_property
    def quantized_modules(self) -> tuple[str, ...]:
        """Modules whose tensors are those of a quantized module, whatever is declared."""
        return tuple(name for name in self.linears if is_quantized(self.modules[name]))


def _is_linear(name: str, leaves: Leaves) -> bool:
    if is_quantized(leaves):
        return True
    weight = leaves.get("weight")
    if weight is None:
        # Only companions are left: the weight itself is missing.
        return "scales" in leaves
    leaf = name.rpartition(".")[2]
    return len(weight[1]) == 2 and "embed" not in leaf and "norm" not in leaf and "conv" not in leaf
