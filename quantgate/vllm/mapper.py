"""vLLM's WeightsMapper: how a model class renames checkpoint names into its own.

Source: vllm/model_executor/models/utils.py WeightsMapper. The order of the tables is regex,
substring, stacked, prefix, suffix; within a table every matching entry applies in turn. Before
0.27 there was no stacked table and no regex; their order has not changed since.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Table = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class NameMapper:
    """The tables of one class. A new name of None drops what matches.

    `stacked` holds (old substring, new substring, shard ids): a weight with two shard ids is
    loaded into both.
    """

    regex: Table = ()
    substr: Table = ()
    stacked: tuple[tuple[str, str, tuple[str | int, ...]], ...] = ()
    prefix: Table = ()
    suffix: Table = ()

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> NameMapper:
        """From the JSON form of the facts: table name → {old: new} in order."""

        def pairs(name: str) -> Table:
            return tuple((old, new) for old, new in (tables.get(name) or {}).items())

        stacked = tuple(
            (old, new, tuple(shard) if isinstance(shard, list) else (shard,))
            for old, (new, shard) in (tables.get("stacked") or {}).items()
        )
        return cls(pairs("regex"), pairs("substr"), stacked, pairs("prefix"), pairs("suffix"))

    def map(self, name: str) -> tuple[str, tuple[str | int, ...]] | None:
        """(vLLM's name, shard ids) of a checkpoint tensor, None if the class drops it."""
        for pattern, new in self._compiled:
            if pattern.search(name):
                if new is None:
                    return None
                name = pattern.sub(new, name)
        for old, new in self.substr:
            if old in name:
                if new is None:
                    return None
                name = name.replace(old, new, 1)
        shards: tuple[str | int, ...] = ()
        for old, fused, ids in self.stacked:
            if old in name:
                name = name.replace(old, fused, 1)
                shards = ids
        for old, new in self.prefix:
            if name.startswith(old):
                if new is None:
                    return None
                name = name.replace(old, new, 1)
        for old, new in self.suffix:
            if name.endswith(old):
                if new is None:
                    return None
                name = new.join(name.rsplit(old, 1))
        return name, shards

    @cached_property
    def _compiled(self) -> tuple[tuple[re.Pattern[str], str | None], ...]:
        return tuple((re.compile(old), new) for old, new in self.regex)

    def renames(self) -> NameMapper:
        """Only what renames: neither stacked entries nor dropped ones (0.30 and newer)."""

        def kept(table: Table) -> Table:
            return tuple((old, new) for old, new in table if new is not None)

        return NameMapper(
            kept(self.regex), kept(self.substr), (), kept(self.prefix), kept(self.suffix)
        )

    def unstacked(self) -> NameMapper:
        """Without the stacked entries; dropped ones still drop (0.27 to 0.29, and older)."""
        return replace(self, stacked=())
