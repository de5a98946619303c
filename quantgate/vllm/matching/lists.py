"""The lists of a declaration in vLLM's names, renamed once and as the release does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from quantgate.vllm.patterns import Entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quantgate.vllm.dialect import Dialect, Packed
    from quantgate.vllm.naming import Naming

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stored:
    """What a method that derives its list from the headers sees there (facts of the whole model).

    `quantized` are modules that own any tensor of a type other than F16, BF16, F32; `dense` those
    that own nothing else. The names are the checkpoint's.
    """

    quantized: frozenset[str]
    dense: frozenset[str]


@dataclass(frozen=True, slots=True)
class Lists:
    """What a method reads lists with: the names and the dialect of one release.

    Attributes:
        naming: What the release calls the modules of the checkpoint.
        dialect: How it matches names.
        stored: What the headers show.
    """

    naming: Naming
    dialect: Dialect
    stored: Stored

    @property
    def packed(self) -> Packed:
        """Fused projection → shards."""
        return self.naming.packed

    def entries(self, listed: Iterable[str]) -> Entries:
        """The entries in vLLM's names; those that the release drops are gone."""
        return Entries(self.names(listed))

    def names(self, listed: Iterable[str]) -> tuple[str, ...]:
        """As `entries`, without a way to look them up."""
        renamed = (self.naming.entry(name) for name in listed)
        return tuple(name for name in renamed if name is not None)

    def keys(self, settings: Mapping[str, T]) -> dict[str, T]:
        """What is said of each name, by vLLM's names."""
        renamed = ((self.naming.entry(name), value) for name, value in settings.items())
        return {name: value for name, value in renamed if name is not None}
