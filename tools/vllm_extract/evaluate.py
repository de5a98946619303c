"""What an expression of the source would be at run time, where the source alone says so.

Literals, names across modules, class attributes through the method resolution order, `|`,
`**`, comprehensions and calls of small pure functions are computed; anything else becomes
`Unknown` with its source. Platform tests are answered for one platform.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.calls import Calls
from tools.vllm_extract.classes import Classes, is_property
from tools.vllm_extract.functions import Functions
from tools.vllm_extract.names import Module, Names, Scope
from tools.vllm_extract.values import (
    BoundName,
    ClassRef,
    CurrentPlatform,
    External,
    FunctionRef,
    Instance,
    Mapper,
    ModuleRef,
    Pattern,
    RaisedError,
    UndecidedError,
    Unknown,
    Value,
    has_unknown,
    spread,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.vllm_extract.source import SourceTree

PLATFORMS: Final = ("cuda", "rocm", "xpu", "cpu")
_DEVICE_TYPE: Final = {"cuda": "cuda", "rocm": "cuda", "xpu": "xpu", "cpu": "cpu"}
_SUBSCRIPTABLE: Final = frozenset(f"builtins.{t}" for t in ("dict", "list", "set", "tuple"))
_ARITHMETIC: Final[dict[type[ast.operator], Callable[[Value, Value], Value]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Value, Value], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_LONGEST_RANGE: Final = 5000


class Evaluator:
    """Evaluates expressions of one source tree on one platform.

    Attributes:
        tree: The files.
        platform: One of `PLATFORMS`.
        steps: Expressions evaluated so far, which bounds the interpretation of functions.
    """

    def __init__(self, tree: SourceTree, platform: str) -> None:
        self.tree, self.platform = tree, platform
        self.steps = 0
        self.names = Names(self)
        self.classes = Classes(self)
        self.functions = Functions(self)
        self.calls = Calls(self)
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """A module of vLLM by its dotted name, None for any other."""
        if name not in self._modules:
            self._modules[name] = None  # guards against re-entry while it is built
            path = self.tree.path_of(name) if name.split(".", maxsplit=1)[0] == "vllm" else None
            if path is not None:
                module = Module(name, path, self.tree.parse(path))
                self.names.build(module.tree.body, module.scope)
                self._modules[name] = module
        return self._modules[name]

    def safe(self, node: ast.expr, scope: Scope) -> Value:
        """As `evaluate`, but unknown where that raises."""
        try:
            return self.evaluate(node, scope)
        except (UndecidedError, RaisedError, RecursionError):
            return Unknown.of(node)

    def truth(self, value: Value) -> bool | None:
        """Whether the value is true, None if undecided."""
        if isinstance(value, (Unknown, External, BoundName, ModuleRef, Instance)):
            return None
        if isinstance(value, (ClassRef, FunctionRef, CurrentPlatform, Mapper, Pattern)):
            return True
        return bool(value)

    def evaluate(self, node: ast.expr, scope: Scope) -> Value:
        """The value of an expression.

        Raises:
            UndecidedError: A called function or a comprehension has an undecided branch.
            RaisedError: A called function raises.
        """
        self.steps += 1
        match node:
            case ast.Constant(value=value):
                plain = not isinstance(value, (bytes, complex)) and value is not ...
                return value if plain else Unknown.of(node)
            case ast.Name(id=name):
                return self.names.lookup(name, scope)
            case ast.Attribute():
                return self.attribute(self.evaluate(node.value, scope), node.attr, text(node))
            case ast.Call():
                return self.calls.evaluate(node, scope)
            case ast.List():
                return self._elements(node.elts, scope)
            case ast.Tuple():
                return tuple(self._elements(node.elts, scope))
            case ast.Set():
                return _as_set(self._elements(node.elts, scope), node)
            case ast.Dict():
                return self._dict(node, scope)
            case ast.JoinedStr():
                return self._joined(node, scope)
            case ast.UnaryOp():
                return self._unary(node, scope)
            case ast.BoolOp():
                return self._bool(node, scope)
            case ast.BinOp():
                return self._binary(node, scope)
            case ast.Compare():
                return self._compare(node, scope)
            case ast.IfExp():
                truth = self.truth(self.safe(node.test, scope))
                if truth is None:
                    return Unknown.of(node)
                return self.evaluate(node.body if truth else node.orelse, scope)
            case ast.Lambda():
                return FunctionRef(scope.module, node, scope)
            case ast.NamedExpr():
                value = self.evaluate(node.value, scope)
                if scope.values is not None:
                    scope.values[node.target.id] = value
                return value
            case ast.Subscript():
                return self._subscript(node, scope)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                values: list[Value] = []
                try:
                    self._comprehend(
                        node.generators, scope, lambda s: values.append(self.evaluate(node.elt, s))
                    )
                except UndecidedError:
                    return Unknown.of(node)
                return _as_set(values, node) if isinstance(node, ast.SetComp) else values
            case ast.DictComp():
                return self._dict_comprehension(node, scope)
        return Unknown.of(node)

    # -- displays ----------------------------------------------------------------------
    def _elements(self, nodes: Sequence[ast.expr], scope: Scope) -> list[Value]:
        out: list[Value] = []
        for node in nodes:
            if not isinstance(node, ast.Starred):
                out.append(self.evaluate(node, scope))
                continue
            value = self.evaluate(node.value, scope)
            if isinstance(value, (list, tuple, set, frozenset, range, dict)):
                out.extend(value)
            else:
                out.append(Unknown.of(node))
        return out

    def _dict(self, node: ast.Dict, scope: Scope) -> Value:
        out: dict[Value, Value] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            if key_node is None:
                value = self.evaluate(value_node, scope)
                if isinstance(value, dict):
                    out.update(value)
                else:
                    out[Unknown(f"**{text(value_node)}")] = Unknown.of(value_node)
                continue
            key = self.evaluate(key_node, scope)
            if not isinstance(key, (str, int, float, Pattern, Unknown, External, type(None))):
                key = Unknown.of(key_node)
            out[key] = self.evaluate(value_node, scope)
        return out

    def _joined(self, node: ast.JoinedStr, scope: Scope) -> Value:
        out: list[str] = []
        for part in node.values:
            match part:
                case ast.Constant(value=str(constant)):
                    out.append(constant)
                case ast.FormattedValue(format_spec=None, conversion=-1):
                    value = self.evaluate(part.value, scope)
                    if not isinstance(value, (str, int, float)):
                        return Unknown.of(node)
                    out.append(str(value))
                case _:
                    return Unknown.of(node)
        return "".join(out)

    # -- operators ---------------------------------------------------------------------
    def _unary(self, node: ast.UnaryOp, scope: Scope) -> Value:
        value = self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            return Unknown.of(node) if truth is None else not truth
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        return Unknown.of(node)

    def _bool(self, node: ast.BoolOp, scope: Scope) -> Value:
        conjunction = isinstance(node.op, ast.And)
        undecided, last = False, None
        for operand in node.values:
            last = self.safe(operand, scope)
            truth = self.truth(last)
            if truth is None:
                undecided = True
            elif truth != conjunction:
                return last  # False in `and`, True in `or`: decides
        return Unknown.of(node) if undecided else last

    def _binary(self, node: ast.BinOp, scope: Scope) -> Value:
        left, right = self.evaluate(node.left, scope), self.evaluate(node.right, scope)
        if isinstance(node.op, ast.BitOr):
            return _union(left, right, node)
        if isinstance(node.op, ast.Add):
            sequences = (str, list, tuple)
            if isinstance(left, sequences) and type(left) is type(right):
                return operator.add(left, right)
            if isinstance(left, list) and isinstance(right, Unknown):
                return [*left, Unknown(f"*{right.source}")]
            if isinstance(left, Unknown) and isinstance(right, list):
                return [Unknown(f"*{left.source}"), *right]
        repeats = isinstance(node.op, ast.Mult) and isinstance(right, int) and right < 1000
        if repeats and isinstance(left, (str, list, tuple)):
            return left * right
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            function = _ARITHMETIC.get(type(node.op))
            try:
                return function(left, right) if function else Unknown.of(node)
            except (ZeroDivisionError, OverflowError):
                return Unknown.of(node)
        return Unknown.of(node)

    def _compare(self, node: ast.Compare, scope: Scope) -> Value:
        left = self.evaluate(node.left, scope)
        for op, operand in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(operand, scope)
            holds = _holds(op, left, right)
            if holds is None:
                return Unknown.of(node)
            if not holds:
                return False
            left = right
        return True

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        value = self.evaluate(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            bounds = [
                self.evaluate(b, scope) if b else None for b in (node.slice.lower, node.slice.upper)
            ]
            if isinstance(value, (list, tuple, str)) and all(
                b is None or isinstance(b, int) for b in bounds
            ):
                return value[bounds[0] : bounds[1]]
            return Unknown.of(node)
        key = self.evaluate(node.slice, scope)
        if isinstance(value, dict):
            known = isinstance(key, (str, int, float, Pattern, External)) and key in value
            return value[key] if known else Unknown.of(node)
        if isinstance(value, (list, tuple, str)):
            known = isinstance(key, int) and -len(value) <= key < len(value)
            return value[key] if known else Unknown.of(node)
        if isinstance(value, External) and value.name in _SUBSCRIPTABLE:
            return value  # dict[str, None]
        if isinstance(value, External) and value.name.endswith(".Literal"):
            return key if isinstance(key, tuple) else (key,)
        return Unknown.of(node)

    # -- comprehensions ----------------------------------------------------------------
    def _comprehend(
        self, generators: Sequence[ast.comprehension], scope: Scope, emit: Callable[[Scope], None]
    ) -> None:
        if not generators:
            emit(scope)
            return
        first, *rest = generators
        for item in iterated(self.evaluate(first.iter, scope)):
            inner = Scope(scope.module, None, {}, scope, scope.cls)
            self.functions.assign(first.target, item, inner)
            truths = [self.truth(self.evaluate(test, inner)) for test in first.ifs]
            if None in truths:
                raise UndecidedError
            if all(truths):
                self._comprehend(rest, inner, emit)

    def _dict_comprehension(self, node: ast.DictComp, scope: Scope) -> Value:
        out: dict[Value, Value] = {}

        def emit(inner: Scope) -> None:
            key = self.evaluate(node.key, inner)
            if isinstance(key, (list, dict, set, Mapper)):
                raise UndecidedError
            out[key] = self.evaluate(node.value, inner)

        try:
            self._comprehend(node.generators, scope, emit)
        except UndecidedError:
            return Unknown.of(node)
        return out

    # -- attributes --------------------------------------------------------------------
    def attribute(self, owner: Value, name: str, source: str) -> Value:
        """`owner.name`; unknown with `source` as its text where it cannot be decided."""
        match owner:
            case CurrentPlatform() if name == "device_type":
                return _DEVICE_TYPE[self.platform]
            case ModuleRef():
                module = self.module(owner.name)
                if module is not None:
                    return self.names.attribute(module, name)
                full = f"{owner.name}.{name}"
                if owner.name.startswith("vllm"):
                    return Unknown(source)
                return False if full == "typing.TYPE_CHECKING" else External(full)
            case ClassRef() if name == "__name__":
                return owner.name
            case ClassRef() if name == "__mro__":
                return [k for k in self.classes.mro(owner) if isinstance(k, ClassRef)]
            case ClassRef() | Instance():
                return self._class_attribute(owner, name, source)
            case Mapper() if name in owner.tables:
                return owner.tables[name]
            case External():
                return External(f"{owner.name}.{name}")
            case (
                CurrentPlatform() | Mapper() | dict() | list() | str() | tuple() | set() | Pattern()
            ):
                return BoundName(owner, name)
        return Unknown(source)

    def _class_attribute(self, owner: ClassRef | Instance, name: str, source: str) -> Value:
        found = self.classes.attribute(owner if isinstance(owner, ClassRef) else owner.cls, name)
        if found is None:
            return Unknown(source)
        if not isinstance(found.value, FunctionRef):
            return found.value
        if isinstance(owner, Instance) and is_property(found.value.node):
            try:
                return self.functions.call(found.value, [owner], {})
            except (UndecidedError, RaisedError):
                return Unknown(source)
        return BoundName(owner, name)


def iterated(value: Value) -> list[Value]:
    """The items a loop over the value sees.

    Raises:
        UndecidedError: The value is unknown, or a very long range.
    """
    sized = isinstance(value, (list, tuple, set, frozenset, range, str, dict))
    if not sized or (isinstance(value, range) and len(value) > _LONGEST_RANGE):
        raise UndecidedError
    return list(value)


def _as_set(values: list[Value], node: ast.AST) -> Value:
    try:
        return set(values)
    except TypeError:
        return Unknown.of(node)


def _union(left: Value, right: Value, node: ast.BinOp) -> Value:
    match left, right:
        case Mapper(), _:
            return left.merged(right)
        case Unknown(), Mapper():
            return Mapper(dict(right.tables), [left.source, *right.undecided])
        case dict(), dict():
            return {**left, **right}
        case dict(), Unknown():
            return {**left, **spread(right)}
        case Unknown(), dict():
            return {**spread(left), **right}
        case ((set() | frozenset()), (set() | frozenset())):
            return left | right
    return Unknown.of(node)


def _holds(op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """Whether `left op right`, None if undecided."""
    match op:
        case ast.In() | ast.NotIn():
            container = isinstance(right, (list, tuple, set, frozenset, dict, str))
            if not container or not isinstance(left, (str, int)) or has_unknown(right):
                return None
            if isinstance(right, str) and not isinstance(left, str):
                return None
            return (left in right) == isinstance(op, ast.In)
        case ast.Is() | ast.IsNot():
            if isinstance(left, ClassRef) and isinstance(right, ClassRef):
                same = left.key == right.key
            elif isinstance(left, Unknown) or isinstance(right, Unknown):
                return None
            elif (
                left is None
                or right is None
                or (isinstance(left, bool) and isinstance(right, bool))
            ):
                same = left is right
            else:
                return None
            return same == isinstance(op, ast.Is)
    plain = (str, int, float, type(None), tuple, list)
    if not (isinstance(left, plain) and isinstance(right, plain)):
        return None
    if has_unknown(left) or has_unknown(right):
        return None
    try:
        return bool(_COMPARISONS[type(op)](left, right))
    except TypeError:
        return None
