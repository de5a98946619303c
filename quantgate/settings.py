"""The action's inputs, read from the environment and checked before anything else happens.

The runner hands the input `fail-on` to a Docker action as the variable `INPUT_FAIL-ON`, and an
input that was not given as an empty one. Defaults live here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from quantgate.checkpoint.base import NONE
from quantgate.findings import Severity
from quantgate.rules import find_rule
from quantgate.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FAIL_ON: Mapping[str, Severity | None] = {
    "error": Severity.ERROR,
    "warning": Severity.WARNING,
    "never": None,
}


class SettingsError(ValueError):
    """The inputs cannot be used; `problems` holds one sentence for each bad one."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One field per input of action.yml; `fail_on` is the input `fail-on`.

    Attributes:
        models: Model folders or header archives; empty means: find the folders in the checkout.
        fail_on: The least severity that fails the job, None for never.
        targets: The engines to check against, at least one.
        select: Ids of the only rules to apply; empty means all.
        ignore: Ids of rules to leave out.
        base: The model that was quantized: a source, `auto` for the model card's, or `none`.
        report_path: Folder for the report files; empty means one in the runner's temporary folder.
    """

    models: tuple[str, ...] = ()
    fail_on: Severity | None = Severity.ERROR
    targets: tuple[Target, ...] = (Target(),)
    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    base: str = NONE
    report_path: str = ""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read every input.

        Raises:
            SettingsError: At least one value is not allowed; all of them are named.
        """
        values: dict[str, Any] = {}
        problems: list[str] = []
        for field in fields(cls):
            name = input_name(field.name)
            text = environ.get(f"INPUT_{name.upper()}", "").strip()
            if not text:
                continue
            try:
                values[field.name] = _READERS[field.name](text)
            except ValueError as error:
                problems.append(f"input {name}: {error}")
        if problems:
            raise SettingsError(*problems)
        return cls(**values)


def input_name(field: str) -> str:
    """`fail_on` → `fail-on`."""
    return field.replace("_", "-")


def _lines(text: str) -> tuple[str, ...]:
    """The lines that say something, each once, in order."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.splitlines()))))


def _fail_on(text: str) -> Severity | None:
    try:
        return FAIL_ON[text.lower()]
    except KeyError:
        raise ValueError(f"{text!r} is none of {', '.join(FAIL_ON)}") from None


def _targets(text: str) -> tuple[Target, ...]:
    return tuple(dict.fromkeys(map(Target.parse, _lines(text))))


def _rules(text: str) -> frozenset[str]:
    """Ids of the rules, which may be written as ids or names, with commas or spaces between."""
    words = text.replace(",", " ").split()
    found = {word: find_rule(word) for word in words}
    unknown = [word for word, rule in found.items() if rule is None]
    if unknown:
        raise ValueError(f"no such rule: {', '.join(map(repr, unknown))}")
    return frozenset(rule.id for rule in found.values() if rule)


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} is not the path of a folder")
    return text


def _source(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} is not auto, none or one source")
    return text


_READERS: Mapping[str, Callable[[str], object]] = {
    "models": _lines,
    "fail_on": _fail_on,
    "targets": _targets,
    "select": _rules,
    "ignore": _rules,
    "base": _source,
    "report_path": _one_line,
}
