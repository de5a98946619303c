"""The model that was quantized, opened as a witness: from a source, or as the model card says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quantgate.checkpoint.card import named_base
from quantgate.checkpoint.sources import SourceError, open_checkpoint, open_repository

if TYPE_CHECKING:
    from quantgate.checkpoint.model import Checkpoint

AUTO: Final = "auto"
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Base:
    """A base model.

    Attributes:
        name: What the user or the model card calls it.
        checkpoint: Its headers, None where it was not consulted.
        problem: Why it was not consulted, a part of a sentence; empty if it was.
        from_card: Whether the model card named it, and not the user.
    """

    name: str
    checkpoint: Checkpoint | None = None
    problem: str = ""
    from_card: bool = False


def open_base(setting: str, checkpoint: Checkpoint) -> Base | None:
    """The base model of a checkpoint.

    Args:
        setting: `none`, `auto` (the one of the model card) or a source.
        checkpoint: The quantized model.

    Returns:
        None if none was asked for. What the card names may be out of reach without any fault of
        the model's, so that is told in `problem` and nothing else.

    Raises:
        SourceError: A source that the user gave cannot be read.
    """
    if setting in {"", NONE}:
        return None
    if setting != AUTO:
        return Base(setting, open_checkpoint(setting))
    named = named_base(checkpoint.card)
    if named.problem:
        return Base(named.name, problem=named.problem, from_card=True)
    try:
        return Base(named.name, open_repository(named.repository), from_card=True)
    except SourceError as error:
        return Base(named.name, problem=str(error).rstrip("."), from_card=True)
