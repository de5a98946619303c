"""The fused mapping that a quantization config holds when vLLM builds the layers of a model.

The class attribute `packed_modules_mapping` is only where it starts (model_loader/utils.py
`configure_quant_config` and models/interfaces.py `SupportsQuant`, 0.10.2 to 0.33.0):

- A class with SupportsQuant *copies* its entries into the config in `__new__`. What its
  `__init__` adds to the class afterwards comes too late for the config.
- For any other class the config gets the class's dict *by reference*: what `__init__` adds to
  it counts, a new dict bound to `self` does not.
- Parts with SupportsQuant add their entries when they are built, and some code changes the
  config itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from quantgate.vllm.conditions import Decision, UndecidedError, decide, settle, text_config
from quantgate.vllm.facts.records import packed_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quantgate.vllm.facts.records import Architecture, Change, Packed

_IN_PLACE: Final = ("[]=", "update", "|=", "setdefault")


@dataclass(frozen=True, slots=True)
class EffectivePacked:
    """The fused mapping for one checkpoint.

    Attributes:
        packed: Fused projection → the checkpoint's names of its shards.
        late: Entries that the model adds to its class too late for the quantization config.
        undecided: Fused projections for which config.json does not settle it, and why.
        assumed: Keys that config.json lacks and that were taken as absent.
    """

    packed: Packed
    late: Packed
    undecided: dict[str, str]
    assumed: tuple[str, ...]

    @property
    def certain(self) -> bool:
        """Whether nothing was left open or assumed."""
        return not self.undecided and not self.assumed


def effective_packed(
    architecture: Architecture,
    config: Mapping[str, Any],
    inner: Sequence[tuple[Architecture, Mapping[str, Any]]] = (),
) -> EffectivePacked:
    """The mapping for a checkpoint with this config.json.

    Args:
        architecture: The facts of the architecture that config.json names.
        config: The parsed config.json.
        inner: Models within it that are looked up in the registry themselves, with the configs
            they get. One with SupportsQuant adds its mapping, any other replaces the mapping.
    """
    building = _Building({}, {}, {}, [])
    for one, its_config in ((architecture, config), *inner):
        building.model(one, its_config)
    undecided = {k: v for k, v in building.undecided.items() if k not in building.packed}
    return EffectivePacked(
        building.packed, building.late, undecided, tuple(dict.fromkeys(building.assumed))
    )


@dataclass(frozen=True, slots=True)
class _Building:
    packed: Packed
    late: Packed
    undecided: dict[str, str]
    assumed: list[str]

    def model(self, architecture: Architecture, config: Mapping[str, Any]) -> None:
        if architecture.packed and not architecture.supports_quant:
            self.packed.clear()
        self.packed.update(architecture.packed)
        for entries in architecture.component_packed.values():
            for fused, shards in entries.items():
                if self.packed.setdefault(fused, shards) != shards:
                    self.undecided[fused] = "parts of the model disagree"
                    del self.packed[fused]
        for change in architecture.changes:
            if change.attr == "packed":
                self._change(architecture, change, config)

    def _change(
        self, architecture: Architecture, change: Change, config: Mapping[str, Any]
    ) -> None:
        own = change.part == architecture.parts[0]
        on_config = change.on.endswith("quant_config")
        by_reference = own and not architecture.supports_quant and change.op in _IN_PLACE
        reaches = on_config or by_reference
        if not own and not reaches:
            return  # a part's own dict, which no config holds
        decision, its_config = _decided(change, config, own=own)
        if decision.holds is False:
            self.assumed.extend(decision.assumed)
            return
        entries, reason = _entries(change, its_config)
        if decision.holds is None or reason:
            if reaches:
                for fused in entries or {"*": ()}:
                    self.undecided[fused] = decision.reason or reason
            return
        self.assumed.extend(decision.assumed)
        if not reaches:
            new = {k: v for k, v in entries.items() if self.packed.get(k) != v}
            self.late.update(new)
            return
        if change.op == "=":
            self.packed.clear()
        self.packed.update(entries)


def _decided(
    change: Change, config: Mapping[str, Any], *, own: bool
) -> tuple[Decision, Mapping[str, Any]]:
    """A part may get the whole config or the language model's; the surer answer counts."""
    decision = decide(change.when, change.defs, config)
    inner = text_config(config)
    if own or inner is config:
        return decision, config
    other = decide(change.when, change.defs, inner)
    sure = other.holds is not None and (decision.holds is None or not other.assumed)
    return (other, inner) if sure else (decision, config)


def _entries(change: Change, config: Mapping[str, Any]) -> tuple[Packed, str]:
    """The entries a change brings, and why they are open if they are."""
    value = {change.key: change.value} if change.op == "[]=" else change.value
    try:
        return packed_of(settle(value, change.defs, config)), ""
    except UndecidedError as error:
        return packed_of(value), f"what it sets is open: {error}"


@dataclass(frozen=True, slots=True)
class BuiltMapper:
    """The name mapper that a part of the model makes for itself while it is built.

    Attributes:
        part: The class; the names that it maps are relative to its own place in the model.
        tables: As `Architecture.mapper`, None where config.json does not settle it.
        reason: Why it is open, empty if it is not.
        assumed: Keys that config.json lacks and that were taken as absent.
    """

    part: str
    tables: dict[str, Any] | None
    reason: str
    assumed: tuple[str, ...]


def built_mappers(architecture: Architecture, config: Mapping[str, Any]) -> tuple[BuiltMapper, ...]:
    """The mappers that depend on this config.json: Gemma 4 (k = v, shared KV), dropped MTP layers.

    A part whose condition does not hold keeps the mapper of its class, and is not listed.
    """
    out: list[BuiltMapper] = []
    for change in architecture.changes:
        if change.attr != "mapper" or change.on != "self" or change.op != "=":
            continue
        own = change.part == architecture.parts[0]
        decision, its_config = _decided(change, config, own=own)
        if decision.holds is False:
            continue
        tables, reason = None, decision.reason
        if not reason:
            try:
                tables = settle(change.value, change.defs, its_config)
            except UndecidedError as error:
                reason = f"what it sets is open: {error}"
        out.append(BuiltMapper(change.part, tables, reason, decision.assumed))
    return tuple(out)
