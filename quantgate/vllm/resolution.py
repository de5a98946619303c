"""What every name of the declaration really hits in vLLM, for the report's table.

Targets, ignore entries and the standard projection names are each accounted for: as a module of
their own (`direct`), as a whole fused module, as a slice of one, or as `skipped` because the model
has nothing of that name.
"""

from __future__ import annotations

from collections import defaultdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from quantgate.quantization.auto_round import AutoRoundDeclaration
from quantgate.quantization.awq import AwqDeclaration
from quantgate.quantization.bitsandbytes import BitsAndBytesDeclaration
from quantgate.quantization.compressed_tensors import CompressedTensorsDeclaration
from quantgate.quantization.fbgemm import FbgemmDeclaration
from quantgate.quantization.fp8 import Fp8Declaration
from quantgate.quantization.gptq import GptqDeclaration
from quantgate.quantization.modelopt import ModelOptDeclaration
from quantgate.quantization.observed import observe
from quantgate.quantization.quark import QuarkDeclaration
from quantgate.quantization.torchao import TorchAoDeclaration
from quantgate.report.model import ResolvedTarget
from quantgate.vllm.dialect import names_component, names_run
from quantgate.vllm.patterns import equal_or_regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from quantgate.model import Model
    from quantgate.quantization.declaration import Declaration
    from quantgate.vllm.layers import Layer

STANDARD = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_EXPERTS = "RoutedExperts"
MAX_ENTRIES = 400  # of one role; a list of 100,000 entries is not read by anyone


def resolve(model: Model) -> tuple[ResolvedTarget, ...]:
    """The resolution table of a model."""
    names = _Names(model)
    table: list[ResolvedTarget] = []
    if model.declaration is not None:
        for role, entries in declared_entries(model.declaration).items():
            table += [names.entry(entry, role) for entry in entries[:MAX_ENTRIES]]
    table += [names.standard(name) for name in STANDARD]
    return tuple(table)


def declared_entries(declaration: Declaration) -> Mapping[str, tuple[str, ...]]:
    """The names in a declaration by role: `target` and `ignore`."""
    match declaration:
        case CompressedTensorsDeclaration():
            return {"target": declaration.targets, "ignore": declaration.ignore}
        case GptqDeclaration():
            rules = declaration.dynamic
            return {
                "target": declaration.modules
                + tuple(f"re:{r.pattern}" for r in rules if not r.skip),
                "ignore": tuple(f"re:{r.pattern}" for r in rules if r.skip),
            }
        case AwqDeclaration():
            return {"ignore": declaration.not_converted}
        case Fp8Declaration():
            return {"ignore": declaration.ignored}
        case FbgemmDeclaration():
            return {"ignore": declaration.not_converted}
        case BitsAndBytesDeclaration():
            return {"ignore": declaration.skipped}
        case AutoRoundDeclaration():
            return {"target": tuple(declaration.extra)}
        case TorchAoDeclaration():
            return {"target": tuple(declaration.by_name), "ignore": declaration.skipped}
        case QuarkDeclaration():
            return {
                "target": tuple(name for name, _ in declaration.by_name),
                "ignore": declaration.excluded,
            }
        case ModelOptDeclaration():
            return {"target": tuple(declaration.layers), "ignore": declaration.excluded}
    return {}


class _Names:
    """Looks names up among a model's layers; exact ones in a dictionary, patterns one by one."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._by_prefix: dict[str, Layer] = {}
        self._by_shard: dict[str, tuple[Layer, str]] = {}
        self._by_leaf: dict[str, list[str]] = defaultdict(list)
        self._substrings = isinstance(
            model.declaration, (AwqDeclaration, GptqDeclaration, ModelOptDeclaration)
        )
        # Methods that never rename their lists, each with its own idea of a part of a name.
        self._part = {
            TorchAoDeclaration: names_run,
            BitsAndBytesDeclaration: names_component,
        }.get(type(model.declaration))
        self._wildcards = isinstance(model.declaration, (ModelOptDeclaration, QuarkDeclaration))
        self._slice_of: dict[str, tuple[Layer, str]] = {}
        for layer in model.layers:
            self._by_prefix[layer.prefix] = layer
            for shard, module in layer.shards:
                if module is not None:
                    self._by_shard[layer.shard_prefix(shard)] = (layer, shard)
                    self._slice_of[module] = (layer, shard)
            for module in layer.modules:
                self._by_leaf[module.rpartition(".")[2]].append(module)

    def entry(self, entry: str, role: str) -> ResolvedTarget:
        """Where one entry of a target or ignore list leads."""
        mapped: str | None = entry
        if self._part is None:
            mapped = self._model.naming.entry(entry, dotted_only=not self._substrings)
        if mapped is None:
            note = "the model class drops this name"
            return ResolvedTarget(entry, "", "skipped", role=role, note=note)
        layers = list(self._layers(mapped, entry))
        whole = [x for x in layers if x.shards or x.cls == _EXPERTS]
        alone = [x for x in layers if not x.shards and x.cls != _EXPERTS]
        slices = list(self._slices(mapped))
        count = sum(len(x.modules) for x in (*whole, *alone)) + len(slices)
        if not count:
            note = "matches nothing in this model"
            return ResolvedTarget(entry, "", "skipped", role=role, note=note)
        leaves = (x.prefix.rpartition(".")[2] for x in (*whole, *alone, *(y for y, _ in slices)))
        resolved = ", ".join(list(dict.fromkeys(leaves))[:6])
        if whole:
            note = self._too_much(mapped, whole) or ("also modules of its own" if alone else "")
            return ResolvedTarget(entry, resolved, "fused-whole", (0, 0), count, role, note)
        if not slices:
            return ResolvedTarget(entry, resolved, "direct", (0, 0), count, role)
        one = len({shard for _, shard in slices}) == 1
        rows = self._rows(*slices[0]) if one else (0, 0)
        note = "also modules of its own" if alone else ""
        return ResolvedTarget(entry, resolved, "fused-slice", rows, count, role, note)

    def standard(self, name: str) -> ResolvedTarget:
        """Where a standard projection name leads, whether the model has it or not."""
        fused = next(
            (f for f, s in self._model.naming.fused.items() if name in s and f != name), ""
        )
        modules = self._by_leaf.get(name, [])
        if modules:
            if not fused:
                return ResolvedTarget(name, name, "direct", modules=len(modules), role="standard")
            held = [self._slice_of[m] for m in modules if m in self._slice_of]
            if not held:  # inside the fused experts
                return ResolvedTarget(
                    name, "experts", "fused-slice", modules=len(modules), role="standard"
                )
            layer, shard = held[0]
            return ResolvedTarget(
                name, fused, "fused-slice", self._rows(layer, shard), len(modules), "standard"
            )
        on_disk = self._by_leaf.get(fused, []) if fused else []
        if on_disk:
            return ResolvedTarget(
                name, fused, "fused-slice", (0, 0), len(on_disk), "standard", "fused on disk"
            )
        return ResolvedTarget(name, "", "skipped", role="standard", note="not in this model")

    def _layers(self, entry: str, written: str) -> Iterator[Layer]:
        """Layers whose own name or class the entry names; `written` is its form in the config."""
        if self._is_one_name(entry):
            if entry in self._by_prefix:
                yield self._by_prefix[entry]
                return
            for layer in self._by_prefix.values():
                decision = self._model.decisions.get(layer.prefix)
                if decision is not None and decision.by == f"target {written}":
                    yield layer
            return
        for prefix, layer in self._by_prefix.items():
            if layer.cls == _EXPERTS:
                # Experts are decided by the names of expert 0.
                probes = {f"{prefix}.0.{m.rpartition('.')[2]}" for m in layer.modules}
                if any(self._matches(entry, name) for name in (prefix, *probes)):
                    yield layer
            elif self._matches(entry, prefix):
                yield layer

    def _slices(self, entry: str) -> Iterator[tuple[Layer, str]]:
        """Shards of fused layers that the entry names while it does not name the layer."""
        if self._is_one_name(entry):
            if entry in self._by_shard:
                yield self._by_shard[entry]
            return
        for layer, shard in self._by_shard.values():
            if self._matches(entry, layer.shard_prefix(shard)) and not self._matches(
                entry, layer.prefix
            ):
                yield layer, shard

    def _is_one_name(self, entry: str) -> bool:
        """Whether an entry can only be the whole name of one module, or a class."""
        wild = self._substrings or self._part is not None or (self._wildcards and "*" in entry)
        return not entry.startswith("re:") and not wild

    def _too_much(self, entry: str, layers: list[Layer]) -> str:
        """A note where a pattern that names some shards matches the fused name, and so them all."""
        layer = next((x for x in layers if x.shards), None)
        if layer is None or not entry.startswith("re:"):
            return ""
        shards = [s for s, _ in layer.shards]
        named = [s for s in shards if self._matches(entry, layer.shard_prefix(s))]
        if not named or len(named) == len(shards):
            return ""
        return f"names {', '.join(named)} and decides for all of {', '.join(shards)}"

    def _matches(self, entry: str, name: str) -> bool:
        if entry.startswith("re:"):
            return equal_or_regex(entry, name)
        if self._part is not None:
            return self._part(entry, name)
        if self._wildcards and fnmatchcase(name, entry):
            return True
        return entry in name if self._substrings else entry == name

    def _rows(self, layer: Layer, shard: str) -> tuple[int, int]:
        """Rows of the fused weight that one shard takes; (0, 0) if a size is unknown."""
        start = 0
        for name, module in layer.shards:
            if module is None:
                continue
            n = observe(self._model.modules[module]).n or self._model.sizes(module).n
            if n is None:
                return (0, 0)
            if name == shard:
                return (start, start + n)
            start += n
        return (0, 0)


def unresolved(table: Iterable[ResolvedTarget], role: str) -> tuple[ResolvedTarget, ...]:
    """The entries of a role that hit nothing."""
    return tuple(r for r in table if r.role == role and r.kind == "skipped")
