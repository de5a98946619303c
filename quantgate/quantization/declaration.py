"""The declaration: what the config says about quantization, as vLLM reads it.

Source: vLLM 0.33.0, `from_config` of each method under layers/quantization.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from quantgate.findings import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ProblemKind(StrEnum):
    """What is wrong with a declaration. Each kind belongs to one rule."""

    MISSING = "missing"
    VALUE = "value"  # outside the values vLLM accepts
    SCHEME = "scheme"  # each value is fine, the combination has no scheme
    ACT_ORDER = "act-order"
    METHOD = "method"  # the method itself is unknown


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that keeps vLLM from taking the declaration as it stands.

    `key` is the path below the quantization block (`config_groups.group_0.weights.num_bits`).
    `error` is the text vLLM raises with, for searching. `patch_value` is what to write at `key`
    where only one value can be meant; `...` means that there is none. `since` is the first release
    that refuses it, `until` the first one that does no longer; both are empty where every release
    with facts refuses it.
    """

    kind: ProblemKind
    key: str
    expected: str
    found: str
    error: str
    outcome: Outcome = Outcome.FAILS
    patch_value: Any = ...
    since: tuple[int, ...] = ()
    until: tuple[int, ...] = ()

    def refused_by(self, release: tuple[int, ...]) -> bool:
        """Whether a release refuses it."""
        return self.since <= release and not (self.until and release >= self.until)


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A quantization block.

    Attributes:
        method: vLLM's name of the method, normalised (`gptq`, `compressed-tensors`); empty where
            the block names none, which vLLM takes for an unquantized model.
        file: The file the block stands in.
        path: JSON pointer of the block in that file (`/quantization_config`).
        raw: The block.
        problems: What vLLM would refuse.
        modelled: Whether quantgate knows the tensors of this method.
    """

    method: str
    file: str
    path: str
    raw: Mapping[str, Any] = field(repr=False)
    problems: tuple[Problem, ...] = ()
    modelled: bool = True

    @property
    def origin(self) -> str:
        """Where it stands, for people: `config.json: quantization_config`."""
        return f"{self.file}: {self.path.strip('/').replace('/', '.')}" if self.path else self.file

    def value(self, key: str) -> object:
        """What stands at `key` (dots separate levels), None where nothing does."""
        node: object = self.raw
        for step in key.split("."):
            node = node.get(step) if isinstance(node, dict) else None
        return node

    def patch(self, key: str, value: object) -> tuple[dict[str, Any], ...]:
        """The RFC 6902 operation that writes `value` at `key` (dots separate levels)."""
        if self.file != "config.json":
            return ()
        steps = key.split(".")
        node: object = self.raw
        for step in steps[:-1]:
            node = node.get(step) if isinstance(node, dict) else None
        if not isinstance(node, dict):
            return ()
        pointer = "/".join(s.replace("~", "~0").replace("/", "~1") for s in steps)
        op = "replace" if steps[-1] in node else "add"
        return ({"op": op, "path": f"{self.path}/{pointer}", "value": value},)


def type_name(value: object) -> str:
    """JSON's name for the type of a value."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")


def shown(value: object) -> str:
    """A config value as short text."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Reader:
    """Takes typed values out of a block and notes what is missing or of the wrong type.

    vLLM looks a value up under several names and raises "Cannot find any of [...] in the model's
    quantization config" when none is there (layers/quantization/base_config.py get_from_keys).
    """

    def __init__(self, raw: Mapping[str, Any], prefix: str = "") -> None:
        self._raw = raw
        self._prefix = prefix
        self.problems: list[Problem] = []

    def key(self, name: str) -> str:
        """The path of `name` below the quantization block."""
        return f"{self._prefix}{name}"

    def note(self, kind: ProblemKind, name: str, expected: str, error: str, **more: Any) -> None:
        """Note a problem with the value under `name`."""
        found = shown(self._raw[name]) if name in self._raw else "absent"
        self.add(kind, name, expected, found, error, **more)

    def add(
        self, kind: ProblemKind, name: str, expected: str, found: str, error: str, **more: Any
    ) -> None:
        """Note a problem deeper than the keys of this block, with what was found there."""
        self.problems.append(Problem(kind, self.key(name), expected, found, error, **more))

    def find(self, *names: str) -> str | None:
        """The first of these names that is present."""
        return next((n for n in names if n in self._raw), None)

    def integer(self, *names: str) -> int | None:
        """A required integer under any of these names, None (and a problem) if there is none."""
        name = self._required(names)
        if name is None:
            return None
        value = self._raw[name]
        if isinstance(value, bool) or not isinstance(value, int):
            self.note(ProblemKind.VALUE, name, "an integer", f"Unsupported value for {name}")
            return None
        return value

    def boolean(self, *names: str, default: bool | None = None) -> bool | None:
        """A boolean under any of these names; required unless there is a default."""
        if default is not None and self.find(*names) is None:
            return default
        name = self._required(names)
        if name is None:
            return None
        value = self._raw[name]
        if not isinstance(value, bool):
            self.note(ProblemKind.VALUE, name, "true or false", f"Unsupported value for {name}")
            return default
        return value

    def strings(self, name: str) -> tuple[str, ...]:
        """A list of strings, empty if absent or null; entries of another type are a problem."""
        value = self._raw.get(name)
        if value is None:
            return ()
        flat = list(_flatten(value)) if isinstance(value, list) else None
        if flat is None or not all(isinstance(v, str) for v in flat):
            self.note(ProblemKind.VALUE, name, "a list of strings", "TypeError")
            flat = [v for v in flat or () if isinstance(v, str)]
        return tuple(flat)

    def present(self, *names: str) -> bool:
        """Whether any of these names is present, of whatever type; a problem if none is."""
        return self._required(names) is not None

    def _required(self, names: Sequence[str]) -> str | None:
        name = self.find(*names)
        if name is None:
            error = f"Cannot find any of {list(names)} in the model's quantization config."
            self.problems.append(
                Problem(
                    ProblemKind.MISSING, self.key(names[0]), " or ".join(names), "absent", error
                )
            )
        return name


def _flatten(values: list[Any], depth: int = 0) -> list[Any]:
    out: list[Any] = []
    for value in values:
        if isinstance(value, list) and depth < 3:
            out.extend(_flatten(value, depth + 1))
        else:
            out.append(value)
    return out
