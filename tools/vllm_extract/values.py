"""The values the evaluator computes: Python's own literals, and stand-ins for everything else."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from tools.vllm_extract.names import Module, Scope

# A str, number, bool, None, list, tuple, set or dict of values, or one of the classes below.
Value: TypeAlias = Any
Json: TypeAlias = Any

MAPPER_FIELDS: Final = (
    "orig_to_new_renaming",
    "orig_to_new_regex",
    "orig_to_new_substr",
    "orig_to_new_stacked",
    "orig_to_new_prefix",
    "orig_to_new_suffix",
)


class UndecidedError(Exception):
    """A branch or an iteration that the source alone does not settle."""


class RaisedError(Exception):
    """The interpreted code raises."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that could not be decided; it keeps its source text."""

    source: str

    @classmethod
    def of(cls, node: ast.AST) -> Unknown:
        """The value of `node`, undecided."""
        return cls(text(node))


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled regular expression."""

    pattern: str


@dataclass(frozen=True, slots=True)
class External:
    """A name from outside the tree (`torch.half`), or a built-in (`builtins.dict`)."""

    name: str


@dataclass(frozen=True, slots=True)
class CurrentPlatform:
    """vLLM's `current_platform`, whose tests are answered for the evaluator's platform."""


@dataclass(frozen=True, slots=True)
class ModuleRef:
    """A module, by its dotted name."""

    name: str


@dataclass(eq=False, repr=False, slots=True)
class ClassRef:
    """A class of the tree. `scope` is where its body's names are looked up."""

    module: Module
    name: str
    node: ast.ClassDef
    scope: Scope
    body: Scope | None = None
    mro: list[Value] | None = None

    @property
    def key(self) -> str:
        """`vllm.model_executor.models.llama:LlamaForCausalLM`."""
        return f"{self.module.name}:{self.name}"


@dataclass(eq=False, repr=False, slots=True)
class FunctionRef:
    """A function or lambda of the tree; `owner` is the class that defines it, if one does."""

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    owner: ClassRef | None = None

    @property
    def name(self) -> str:
        """Its name, `lambda` where it has none."""
        return "lambda" if isinstance(self.node, ast.Lambda) else self.node.name


@dataclass(frozen=True, slots=True)
class Instance:
    """`self` (or `cls`) inside a method of `cls`."""

    cls: ClassRef


@dataclass(frozen=True, slots=True)
class BoundName:
    """An attribute of a value, not yet called: `mapping.get`, `current_platform.is_cuda`."""

    owner: Value
    name: str


@dataclass(slots=True)
class Mapper:
    """A `WeightsMapper(...)`: its tables by field name, and operands that were undecided."""

    tables: dict[str, Value] = field(default_factory=dict)
    undecided: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in MAPPER_FIELDS:
            self.tables.setdefault(name, [] if name == "orig_to_new_renaming" else {})

    def merged(self, other: Value) -> Mapper:
        """`self | other`, as `WeightsMapper.__or__` does it."""
        if not isinstance(other, Mapper):
            source = other.source if isinstance(other, Unknown) else repr(other)
            return Mapper(dict(self.tables), [*self.undecided, source])
        tables: dict[str, Value] = {}
        for name in MAPPER_FIELDS:
            mine, theirs = self.tables[name], other.tables[name]
            if isinstance(mine, dict) and isinstance(theirs, dict):
                tables[name] = {**mine, **theirs}
            elif isinstance(mine, dict) and isinstance(theirs, Unknown):
                tables[name] = {**mine, **spread(theirs)}
            elif isinstance(mine, list) and isinstance(theirs, list):
                tables[name] = mine + theirs
            else:
                tables[name] = Unknown(f"{to_json(mine)} | {to_json(theirs)}")
        return Mapper(tables, self.undecided + other.undecided)


def spread(value: Unknown) -> dict[Value, Value]:
    """`**value` in a dict."""
    return {Unknown(f"**{value.source}"): value}


def text(node: ast.AST, limit: int = 400) -> str:
    """The node as source text, cut at `limit` characters."""
    source = ast.unparse(node)
    return source if len(source) <= limit else source[:limit] + "..."


def has_unknown(value: Value) -> bool:
    """Whether any part of the value is undecided."""
    if isinstance(value, Unknown):
        return True
    if isinstance(value, dict):
        return any(has_unknown(k) or has_unknown(v) for k, v in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(has_unknown(v) for v in value)
    if isinstance(value, Mapper):
        return bool(value.undecided) or any(has_unknown(t) for t in value.tables.values())
    return False


def identity(value: Value) -> str:
    """What a base class is called in a method resolution order."""
    if isinstance(value, ClassRef):
        return value.key
    if isinstance(value, External):
        return value.name
    return value.source if isinstance(value, Unknown) else repr(value)


def to_json(value: Value) -> Json:
    """The value as JSON. Dicts keep their order, which matters in a mapper.

    An undecided value is `{"$expr": source}`, an undecided key `"$expr:<source>"`.
    """
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Unknown):
        return {"$expr": value.source}
    if isinstance(value, Pattern):
        return value.pattern
    if isinstance(value, (External, ModuleRef)):
        return value.name
    if isinstance(value, ClassRef):
        return value.key
    if isinstance(value, FunctionRef):
        return f"{value.module.name}:{value.name}"
    if isinstance(value, Mapper):
        return mapper_to_json(value)
    if isinstance(value, dict):
        return {_key(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((to_json(v) for v in value), key=str)
    return {"$expr": f"<{type(value).__name__}>"}


def _key(key: Value) -> str:
    if isinstance(key, Unknown):
        return f"$expr:{key.source}"
    return key if isinstance(key, str) else str(to_json(key))


def mapper_to_json(mapper: Mapper) -> Json:
    """`{"prefix": {old: new, ...}, ...}`, only the tables that hold something."""
    out = {
        name.removeprefix("orig_to_new_"): to_json(table)
        for name, table in mapper.tables.items()
        if table
    }
    if mapper.undecided:
        out["$expr"] = mapper.undecided
    return out
