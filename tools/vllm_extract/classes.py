"""Classes: their namespaces, method resolution order and attributes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.names import FunctionNode, Scope
from tools.vllm_extract.values import (
    ClassRef,
    FunctionRef,
    RaisedError,
    UndecidedError,
    Unknown,
    Value,
    identity,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.vllm_extract.evaluate import Evaluator

# The class attributes that say how a checkpoint's names meet vLLM's modules.
MAPPINGS: Final = ("packed_modules_mapping", "hf_to_vllm_mapper")


@dataclass(frozen=True, slots=True)
class Found:
    """An attribute's value, and the class that defines it."""

    value: Value
    owner: ClassRef


class Classes:
    """Answers questions about classes for one evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.ev = evaluator
        self._hooked: set[str] = set()
        self._overrides: dict[tuple[str, str], Value] = {}

    def body(self, cls: ClassRef) -> Scope:
        """The scope of the class body, with its bindings."""
        if cls.body is None:
            cls.body = Scope(cls.module, {}, None, cls.scope, cls, is_class=True)
            self.ev.names.build(cls.node.body, cls.body)
        return cls.body

    def methods(self, cls: ClassRef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions in the class body, also those under an `if`."""
        for statement in cls.node.body:
            nested = isinstance(statement, ast.If)
            for inner in [*statement.body, *statement.orelse] if nested else [statement]:  # type: ignore[attr-defined]
                if isinstance(inner, FunctionNode):
                    yield inner

    def _bases(self, cls: ClassRef) -> list[Value]:
        out: list[Value] = []
        for base in cls.node.bases:
            node = base.value if isinstance(base, ast.Subscript) else base
            value = self.ev.safe(node, cls.scope)
            if isinstance(value, Unknown) and isinstance(node, ast.Call):
                # a class made of others by a function: they are what it inherits
                arguments = [self.ev.safe(a, cls.scope) for a in node.args]
                made_of = [a for a in arguments if isinstance(a, ClassRef)]
                if made_of:
                    out.extend(made_of)
                    continue
            out.append(value)
        return out

    def mro(self, cls: ClassRef) -> list[Value]:
        """The C3 order, `cls` first; a base from outside the tree stands as its own value."""
        if cls.mro is None:
            cls.mro = [cls]  # guards against a cycle
            bases = [
                b for b in self._bases(cls) if not (isinstance(b, ClassRef) and b.key == cls.key)
            ]
            lists = [list(self.mro(b)) if isinstance(b, ClassRef) else [b] for b in bases]
            cls.mro = [cls, *_merged([*lists, bases])]
        return cls.mro

    def attribute(self, cls: ClassRef, name: str) -> Found | None:
        """A class attribute through the method resolution order, None if there is none."""
        if name in MAPPINGS:
            self._run_hooks(cls)
        for base in self.mro(cls):
            if not isinstance(base, ClassRef):
                continue
            if (base.key, name) in self._overrides:
                return Found(self._overrides[base.key, name], base)
            body = self.body(base)
            if name in body.bindings:
                return Found(self.ev.names.force(body.bindings[name], body, name), base)
        return None

    def override(self, cls: ClassRef, name: str, value: Value) -> None:
        """Note that interpreted code sets one of the mappings on the class."""
        if name in MAPPINGS:
            self._overrides[cls.key, name] = value

    def _run_hooks(self, cls: ClassRef) -> None:
        """Run an inherited `__init_subclass__` that sets one of the mappings on `cls`."""
        if cls.key in self._hooked:
            return
        self._hooked.add(cls.key)
        bases = [b for b in self.mro(cls)[1:] if isinstance(b, ClassRef)]
        for base in reversed(bases):
            self._run_hooks(base)
        for base in bases:
            body = self.body(base)
            binding = body.bindings.get("__init_subclass__")
            if binding is None or not isinstance(binding.node, FunctionNode):
                continue
            if any(
                isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and n.attr in MAPPINGS
                for n in ast.walk(binding.node)
            ):
                hook = FunctionRef(base.module, binding.node, body, base)
                try:
                    self.ev.functions.call(hook, [cls], {})
                except (UndecidedError, RaisedError):
                    self.override(cls, "hf_to_vllm_mapper", Unknown.of(binding.node))
            return


def is_property(node: ast.AST) -> bool:
    """Whether the function is read like an attribute."""
    return not {"property", "cached_property", "classproperty"}.isdisjoint(decorators(node))


def decorators(node: ast.AST) -> set[str]:
    """The last names of the function's decorators."""
    found = getattr(node, "decorator_list", [])
    return {getattr(d, "id", getattr(d, "attr", "")) for d in found}


def _merged(lists: list[list[Value]]) -> list[Value]:
    """C3 merge; an inconsistent order (a base from outside) takes the first candidate anyway."""
    out: list[Value] = []
    lists = [list(one) for one in lists if one]
    while lists:
        tails = [{identity(v) for v in one[1:]} for one in lists]
        chosen = next(
            (one[0] for one in lists if not any(identity(one[0]) in tail for tail in tails)),
            lists[0][0],
        )
        out.append(chosen)
        name = identity(chosen)
        lists = [kept for one in lists if (kept := [v for v in one if identity(v) != name])]
    return out
