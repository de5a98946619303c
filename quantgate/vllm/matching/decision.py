"""What vLLM decides for one layer, and the ways in which a method comes to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quantgate.vllm.dialect import Disagreement

if TYPE_CHECKING:
    from quantgate.quantization.scheme import Scheme


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


def given(scheme: Scheme | None, by: str) -> Decision:
    """The decision of an entry that gives a scheme; None is one that could not be read."""
    return Decision(scheme, by, unreadable=scheme is None)


def skipped(found: bool | Disagreement, key: str) -> Decision | None:  # noqa: FBT001
    """The decision of the list under `key` of what stays dense; None where it leaves the layer."""
    if isinstance(found, Disagreement):
        return divided(found, key)
    return Decision(None, key) if found else None


def divided(found: Disagreement, key: str) -> Decision:
    """The list under `key` names some shards of a fused layer, which vLLM refuses."""
    return Decision(None, key, "ignore", found.named, found.unnamed)


def refused(by: str, schemes: tuple[tuple[str, Scheme | None], ...], error: str) -> Decision:
    """Shards of different schemes, where vLLM compares them."""
    return Decision(schemes[0][1], by, "scheme", schemes=schemes, error=error)
