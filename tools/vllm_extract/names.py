"""What a name means: the bindings of modules, classes and functions, and how they are found."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tools.vllm_extract.values import (
    ClassRef,
    CurrentPlatform,
    External,
    FunctionRef,
    ModuleRef,
    RaisedError,
    UndecidedError,
    Unknown,
    Value,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tools.vllm_extract.evaluate import Evaluator

IN_PLACE: Final = frozenset(
    {
        "update",
        "append",
        "extend",
        "insert",
        "pop",
        "setdefault",
        "add",
        "clear",
        "remove",
        "discard",
        "popitem",
    }
)
FunctionNode = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True)
class Binding:
    """What a statement binds a name to; evaluated when the name is first read."""

    kind: Literal["expr", "class", "func", "module", "from", "unknown"]
    node: ast.AST | None = None
    source: str = ""
    attribute: str = ""
    value: Value = None
    state: Literal["new", "working", "done"] = "new"


@dataclass(slots=True)
class Scope:
    """Where a name is looked up: local values, then a namespace of bindings, then the parent."""

    module: Module
    namespace: dict[str, Binding] | None = None
    values: dict[str, Value] | None = None
    parent: Scope | None = None
    cls: ClassRef | None = None
    is_class: bool = False

    @property
    def local(self) -> dict[str, Value]:
        """The local values; reading them makes the scope have some."""
        if self.values is None:
            self.values = {}
        return self.values

    @property
    def bindings(self) -> dict[str, Binding]:
        """The namespace; reading it makes the scope have one."""
        if self.namespace is None:
            self.namespace = {}
        return self.namespace


class Module:
    """One module of the tree, with the bindings of its top level."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name = name
        self.is_package = path.name == "__init__.py"
        self.tree = tree
        self.scope = Scope(self, {})
        self.raises = ""  # what its import raises, on the evaluator's platform

    @property
    def namespace(self) -> dict[str, Binding]:
        """The bindings of its top level."""
        return self.scope.bindings

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


def absolute_name(module: Module, statement: ast.ImportFrom) -> str:
    """The dotted name that `from ... import` reads, relative imports resolved."""
    if not statement.level:
        return statement.module or ""
    base = module.package.split(".")
    if statement.level > 1:
        base = base[: 1 - statement.level]
    return ".".join([*base, *([statement.module] if statement.module else [])])


class Names:
    """Builds namespaces and resolves names for one evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.ev = evaluator

    # -- building ----------------------------------------------------------------------
    def build(self, statements: Iterable[ast.AST], scope: Scope, *, maybe: bool = False) -> None:
        """Record what each statement binds in `scope`'s namespace.

        Of an `if` that cannot be decided, names bound in its first arm win. `maybe` says that
        the statements belong to a branch that is only possible: existing names are kept.
        """
        namespace = scope.bindings

        def put(name: str, binding: Binding) -> None:
            if not (maybe and name in namespace):
                namespace[name] = binding

        for statement in statements:
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    # keep the implementation, not an @overload stub
                    if not any(_is_name(d, "overload") for d in statement.decorator_list):
                        put(statement.name, Binding("func", statement))
                case ast.ClassDef():
                    put(statement.name, Binding("class", statement))
                case ast.Import():
                    for alias in statement.names:
                        source = alias.name if alias.asname else alias.name.split(".")[0]
                        put(alias.asname or source, Binding("module", source=source))
                case ast.ImportFrom():
                    source = absolute_name(scope.module, statement)
                    for alias in statement.names:
                        if alias.name != "*":
                            bound = Binding("from", source=source, attribute=alias.name)
                            put(alias.asname or alias.name, bound)
                case ast.Assign():
                    for target in statement.targets:
                        match target:
                            case ast.Subscript(value=ast.Name(id=name)) if name in namespace:
                                namespace[name] = Binding("unknown", source=name)
                        _bind_target(target, statement.value, put)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    put(name, Binding("expr", value))
                case ast.AugAssign(target=ast.Name(id=name)) if name in namespace:
                    old = namespace[name]
                    if old.kind == "expr" and isinstance(old.node, ast.expr):
                        joined = ast.BinOp(old.node, statement.op, statement.value)
                        namespace[name] = Binding("expr", joined)
                case ast.If():
                    self._build_if(statement, scope, maybe=maybe)
                case ast.Try():
                    self.build(statement.body, scope, maybe=maybe)
                    for handler in statement.handlers:
                        self.build(handler.body, scope, maybe=True)
                    self.build(statement.orelse, scope, maybe=maybe)
                    self.build(statement.finalbody, scope, maybe=maybe)
                case ast.With():
                    self.build(statement.body, scope, maybe=maybe)
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method))
                ) if method in IN_PLACE and name in namespace:
                    namespace[name] = Binding("unknown", source=text(statement.value))
                case ast.Raise():
                    if not maybe and not scope.is_class and scope.parent is None:
                        scope.module.raises = text(statement)
                case ast.For() | ast.While():
                    if isinstance(statement, ast.For):
                        for node in ast.walk(statement.target):
                            if isinstance(node, ast.Name):
                                put(node.id, Binding("unknown", source=node.id))
                    self.build(statement.body, scope, maybe=True)

    def _build_if(self, statement: ast.If, scope: Scope, *, maybe: bool) -> None:
        truth = self.ev.truth(self.ev.safe(statement.test, scope))
        if truth is not False:
            self.build(statement.body, scope, maybe=maybe)
        if truth is not True:
            self.build(statement.orelse, scope, maybe=maybe or truth is None)

    # -- reading -----------------------------------------------------------------------
    def force(self, binding: Binding, scope: Scope, name: str) -> Value:
        """The value of a binding; one that needs itself is unknown."""
        if binding.state == "working":
            return Unknown(name)
        if binding.state == "new":
            binding.state = "working"
            try:
                binding.value = self._force(binding, scope, name)
            finally:
                binding.state = "done"
        return binding.value

    def _force(self, binding: Binding, scope: Scope, name: str) -> Value:
        node = binding.node
        if isinstance(node, ast.ClassDef):
            nested = scope.is_class and scope.cls is not None
            qualified = f"{scope.cls.name}.{name}" if nested and scope.cls else name
            return ClassRef(scope.module, qualified, node, scope)
        if isinstance(node, FunctionNode):
            owner = scope.cls if scope.is_class else None
            return FunctionRef(scope.module, node, scope, owner)
        if isinstance(node, ast.expr):
            try:
                return self.ev.evaluate(node, scope)
            except (UndecidedError, RaisedError):
                return Unknown.of(node)
        if binding.kind == "module":
            return ModuleRef(binding.source)
        if binding.kind == "from":
            return self.imported(binding.source, binding.attribute)
        return Unknown(binding.source or name)

    def imported(self, module_name: str, name: str) -> Value:
        """What `from module_name import name` binds."""
        if name == "current_platform" and module_name.startswith("vllm.platforms"):
            return CurrentPlatform()
        if name == "TYPE_CHECKING" and module_name in ("typing", "typing_extensions"):
            return False
        module = self.ev.module(module_name)
        if module is not None:
            return self.attribute(module, name)
        full = f"{module_name}.{name}"
        return Unknown(full) if module_name.startswith("vllm") else External(full)

    def attribute(self, module: Module, name: str) -> Value:
        """`module.name`: its binding, a submodule, its `__getattr__`, or a star import."""
        if name in module.namespace:
            return self.force(module.namespace[name], module.scope, name)
        full = f"{module.name}.{name}"
        if module.is_package and self.ev.tree.path_of(full):
            return ModuleRef(full)
        hook = module.namespace.get("__getattr__")
        if hook is not None and isinstance(hook.node, FunctionNode) and not name.startswith("__"):
            function = FunctionRef(module, hook.node, module.scope)
            try:
                return self.ev.functions.call(function, [name], {})
            except (UndecidedError, RaisedError):
                return Unknown(full)
        found, value = self._star(module, name)
        return value if found else Unknown(full)

    def _star(self, module: Module, name: str) -> tuple[bool, Value]:
        for statement in module.tree.body:
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                source = self.ev.module(absolute_name(module, statement))
                if source is not None and name in source.namespace:
                    return True, self.attribute(source, name)
        return False, None

    def lookup(self, name: str, scope: Scope) -> Value:
        """The value of a name read in `scope`."""
        current: Scope | None = scope
        while current is not None:
            if current.values is not None and name in current.values:
                return current.values[name]
            # a class namespace is seen only from the class body itself
            visible = not current.is_class or current is scope
            if current.namespace is not None and visible and name in current.namespace:
                return self.force(current.namespace[name], current, name)
            current = current.parent
        if hasattr(builtins, name):
            return External(f"builtins.{name}")
        found, value = self._star(scope.module, name)
        return value if found else Unknown(name)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _bind_target(target: ast.expr, value: ast.expr, put: Callable[[str, Binding], None]) -> None:
    if isinstance(target, ast.Name):
        put(target.id, Binding("expr", value))
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts: Sequence[ast.expr] | None = None
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            parts = value.elts
        for index, element in enumerate(target.elts):
            if isinstance(element, ast.Name):
                known = Binding("expr", parts[index]) if parts else None
                put(element.id, known or Binding("unknown", source=element.id))
