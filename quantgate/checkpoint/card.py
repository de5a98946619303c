"""The model card: the YAML at the head of README.md, of which only the base model is of use here.

The prose below is never kept. What the card says is the author's claim, and anybody's text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from quantgate.checkpoint.documents import parse_yaml
from quantgate.checkpoint.model import ConfigFile, Defect

if TYPE_CHECKING:
    from collections.abc import Mapping

CARD_NAME: Final = "README.md"

MAX_CARD: Final = 256_000
"""Bytes at the head of README.md that are looked at."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
# A fine-tuned, merged or adapted model may have other modules than its base.
_SAME_MODULES = frozenset({None, "quantized"})


@dataclass(frozen=True, slots=True)
class NamedBase:
    """The base model that a card names, or why it names none that can be asked.

    `repository` is a Hub id such as `org/model`; empty where `problem` says why there is none.
    `name` is what the card says, for people.
    """

    name: str = ""
    repository: str = ""
    problem: str = ""


def front_matter(content: bytes) -> bytes:
    """The YAML between the two lines `---` at the head of a README, empty if there is none.

    As huggingface_hub reads it (repocard.py, REGEX_YAML_BLOCK), but only in the first `MAX_CARD`
    bytes.
    """
    lines = content[:MAX_CARD].removeprefix(b"\xef\xbb\xbf").lstrip().splitlines()
    if not lines or lines[0].rstrip() != b"---":
        return b""
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() == b"---"), 0)
    return b"\n".join([b"---", *lines[1:end], b"---", b""]) if end else b""


def parse_card(content: bytes) -> ConfigFile | None:
    """The card's data, None where the README has none."""
    head = front_matter(content)
    if not head:
        return None
    value = parse_yaml(head.removesuffix(b"---\n"))
    if isinstance(value, Defect):
        return ConfigFile(CARD_NAME, None, value.message, value.kind)
    return ConfigFile(CARD_NAME, value)


def named_base(card: ConfigFile | None) -> NamedBase:
    """The base model of a card: `base_model`, if the model is a quantized copy of exactly one.

    Only a Hub id is taken. A path would let a pull request choose what is read on the machine.
    """
    if card is None:
        return NamedBase(problem="there is no model card")
    if card.error:
        return NamedBase(problem=f"the head of README.md {card.error}")
    names = _names(card.mapping)
    shown = ", ".join(names)
    if not names:
        return NamedBase(problem="the model card names no base_model")
    relation = card.mapping.get("base_model_relation")
    if not isinstance(relation, str | None) or relation not in _SAME_MODULES:
        return NamedBase(shown, problem=f"the model card calls the relation {relation!r}")
    if len(names) > 1:
        return NamedBase(shown, problem="the model card names several")
    if _REPOSITORY.fullmatch(shown) is None or ".." in shown:
        return NamedBase(shown, problem="that is no id of a Hub repository, and paths are refused")
    return NamedBase(shown, repository=shown)


def _names(data: Mapping[str, Any]) -> list[str]:
    """What stands under `base_model`: a text, or a list of them."""
    value = data.get("base_model")
    values = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(v.strip() for v in values if isinstance(v, str) and v.strip()))
