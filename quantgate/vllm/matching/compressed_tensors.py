"""compressed-tensors: an ignore list, then the target that matches first.

Source: vLLM 0.33.0, compressed_tensors/compressed_tensors.py and its utils.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.vllm.dialect import leaf
from quantgate.vllm.matching.decision import Decision, given, skipped
from quantgate.vllm.patterns import Entries, class_match

if TYPE_CHECKING:
    from quantgate.quantization.compressed_tensors import CompressedTensorsDeclaration
    from quantgate.quantization.scheme import Scheme
    from quantgate.vllm.layers import Layer
    from quantgate.vllm.matching.lists import Lists


class CompressedTensors:
    """Decides by `ignore` and the targets of `config_groups`."""

    def __init__(self, declared: CompressedTensorsDeclaration, lists: Lists) -> None:
        self._declared = declared
        self._dialect = lists.dialect
        self._packed = lists.packed
        # vLLM's name → as it is declared; of several, the first.
        self._origin: dict[str, str] = {}

        def renamed(listed: tuple[str, ...]) -> Entries:
            names = []
            for entry in listed:
                name = lists.naming.entry(entry, dotted_only=True)
                if name is not None:
                    names.append(name)
                    self._origin.setdefault(name, entry)
            return Entries(names)

        self._ignore = renamed(declared.ignore)
        self._targets = renamed(declared.targets)

    def decide(self, layer: Layer) -> Decision:
        """The scheme of a layer."""
        if layer.cls == "RoutedExperts":
            return self._experts(layer)
        if layer.cls == "ParallelLMHead" and not self._dialect.compressed_head:
            return Decision(None, "this release never quantizes the head")
        ignored = self._dialect.ignored(layer.prefix, self._ignore, self._packed)
        if (dense := skipped(ignored, "ignore")) is not None:
            return dense
        target = self._dialect.target(layer.prefix, layer.cls, self._targets, self._packed)
        if target is None:
            # Without any target no release looks for one (get_scheme).
            lenient = self._dialect.unmatched_is_dense or not self._declared.targets
            error = "" if lenient else "Unable to find matching target"
            return Decision(None, "no target", error=error)
        scheme = self._scheme(target)
        by = f"target {self._origin[target]}"
        return self._divided(layer, scheme, by) or given(scheme, by)

    def _divided(self, layer: Layer, scheme: Scheme | None, by: str) -> Decision | None:
        """The decision where the targets give the shards of a fused layer different schemes."""
        shards = self._dialect.target_shards(layer.prefix, self._packed)
        hits = [self._targets.first(s) for s in shards]
        if self._targets.first(layer.prefix) is not None or not any(hits):
            return None
        schemes = tuple(
            (leaf(s), self._scheme(h) if h is not None else scheme)
            for s, h in zip(shards, hits, strict=True)
        )
        if len({own for _, own in schemes}) == 1:
            return None
        # One target decides; the shards' own schemes are never compared.
        partly = not all(hits)
        named = tuple(leaf(s) for s, h in zip(shards, hits, strict=True) if h)
        return Decision(
            scheme,
            by,
            "scheme",
            named if partly else (),
            tuple(leaf(s) for s, h in zip(shards, hits, strict=True) if not h),
            schemes,
            unreadable=any(own is None for _, own in schemes),
        )

    def _scheme(self, target: str) -> Scheme | None:
        return self._declared.group_of_target(self._origin[target]).scheme

    def _experts(self, layer: Layer) -> Decision:
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
            found[projection] = self._scheme(target) if target else None
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
