"""Interprets small functions of the source, where no branch depends on what is unknown."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.names import Scope, absolute_name
from tools.vllm_extract.values import (
    ClassRef,
    FunctionRef,
    ModuleRef,
    RaisedError,
    UndecidedError,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tools.vllm_extract.evaluate import Evaluator

_MOST_STEPS: Final = 60_000
_DEEPEST: Final = 25


class _ReturnSignal(Exception):  # noqa: N818
    def __init__(self, value: Value) -> None:
        self.value = value


class _ContinueSignal(Exception):  # noqa: N818
    pass


class _BreakSignal(Exception):  # noqa: N818
    pass


class Functions:
    """Calls functions for one evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.ev = evaluator
        self._depth = 0
        self._limit = 0

    def call(self, function: FunctionRef, args: Sequence[Value], kw: dict[str, Value]) -> Value:
        """What the function returns.

        Raises:
            UndecidedError: A branch or loop depends on something unknown, or it takes too long.
            RaisedError: The function raises.
        """
        if self._depth > _DEEPEST:
            raise UndecidedError
        scope = Scope(function.module, None, self._bind(function, args, kw), function.scope)
        outer, self._limit = self._limit, self.ev.steps + _MOST_STEPS
        self._depth += 1
        try:
            if isinstance(function.node, ast.Lambda):
                return self.ev.evaluate(function.node.body, scope)
            self._run(function.node.body, scope)
        except _ReturnSignal as signal:
            return signal.value
        except (_ContinueSignal, _BreakSignal) as signal:
            raise UndecidedError from signal
        finally:
            self._depth -= 1
            self._limit = outer
        return None

    def run_tolerantly(self, statements: Iterable[ast.stmt], scope: Scope) -> None:
        """Run statements one by one and pass over those that cannot be decided."""
        self._limit = self.ev.steps + _MOST_STEPS
        for statement in statements:
            try:
                self._run([statement], scope)
            except (UndecidedError, RaisedError, _ReturnSignal, _ContinueSignal, _BreakSignal):
                continue

    def _bind(
        self, function: FunctionRef, args: Sequence[Value], kw: dict[str, Value]
    ) -> dict[str, Value]:
        spec = function.node.args
        names = [a.arg for a in [*spec.posonlyargs, *spec.args]]
        if len(args) > len(names) and not spec.vararg:
            raise UndecidedError
        values: dict[str, Value] = dict(zip(names, args, strict=False))
        if spec.vararg:
            values[spec.vararg.arg] = list(args[len(names) :])
        known = {*names, *(a.arg for a in spec.kwonlyargs)}
        for name, value in kw.items():
            if name in known:
                values[name] = value
            elif not spec.kwarg:
                raise UndecidedError
        if spec.defaults:
            for name, node in zip(names[-len(spec.defaults) :], spec.defaults, strict=True):
                if name not in values:
                    values[name] = self.ev.safe(node, function.scope)
        for argument, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if argument.arg not in values:
                known_default = default is not None
                values[argument.arg] = (
                    self.ev.safe(default, function.scope)
                    if known_default and default
                    else Unknown(argument.arg)
                )
        for name in names:
            values.setdefault(name, Unknown(name))
        if spec.kwarg:
            values.setdefault(spec.kwarg.arg, Unknown(spec.kwarg.arg))
        return values

    def _run(self, statements: Iterable[ast.stmt], scope: Scope) -> None:
        for statement in statements:
            if self.ev.steps > self._limit:
                raise UndecidedError
            self._step(statement, scope)

    def _step(self, statement: ast.stmt, scope: Scope) -> None:
        match statement:
            case ast.Return(value=node):
                raise _ReturnSignal(None if node is None else self.ev.evaluate(node, scope))
            case ast.Expr(value=node):
                if not isinstance(node, ast.Constant):
                    self.ev.evaluate(node, scope)
            case ast.Assign():
                value = self.ev.evaluate(statement.value, scope)
                for target in statement.targets:
                    self.assign(target, value, scope)
            case ast.AnnAssign():
                if statement.value is not None:
                    self.assign(statement.target, self.ev.evaluate(statement.value, scope), scope)
            case ast.AugAssign(target=ast.Name(id=name)):
                joined = ast.BinOp(ast.Name(name, ast.Load()), statement.op, statement.value)
                self.assign(statement.target, self.ev.evaluate(joined, scope), scope)
            case ast.If():
                truth = self.ev.truth(self.ev.safe(statement.test, scope))
                if truth is None:
                    raise UndecidedError
                self._run(statement.body if truth else statement.orelse, scope)
            case ast.For():
                self._loop(statement, scope)
            case ast.Import():
                for alias in statement.names:
                    source = alias.name if alias.asname else alias.name.split(".")[0]
                    scope.local[alias.asname or source] = ModuleRef(source)
            case ast.ImportFrom():
                source = absolute_name(scope.module, statement)
                for alias in statement.names:
                    value = self.ev.names.imported(source, alias.name)
                    scope.local[alias.asname or alias.name] = value
            case ast.FunctionDef():
                scope.local[statement.name] = FunctionRef(scope.module, statement, scope)
            case ast.ClassDef():
                name = statement.name
                scope.local[name] = ClassRef(scope.module, name, statement, scope)
            case ast.Raise():
                raise RaisedError
            case ast.Continue():
                raise _ContinueSignal
            case ast.Break():
                raise _BreakSignal
            case ast.Try():
                self._run(statement.body, scope)
                self._run(statement.orelse, scope)
            case ast.With():
                self._run(statement.body, scope)
            case ast.Pass() | ast.Assert() | ast.Global() | ast.Nonlocal() | ast.Delete():
                pass
            case _:
                raise UndecidedError

    def _loop(self, statement: ast.For, scope: Scope) -> None:
        items = self.ev.evaluate(statement.iter, scope)
        if not isinstance(items, (list, tuple, set, range, dict)):
            raise UndecidedError
        for item in list(items):
            self.assign(statement.target, item, scope)
            try:
                self._run(statement.body, scope)
            except _ContinueSignal:
                continue
            except _BreakSignal:
                break

    def assign(self, target: ast.expr, value: Value, scope: Scope) -> None:
        """Bind an assignment's target.

        Raises:
            UndecidedError: The target is a part of something unknown.
        """
        match target:
            case ast.Name(id=name):
                scope.local[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                fits = isinstance(value, (list, tuple)) and len(value) == len(parts)
                if fits and not any(isinstance(p, ast.Starred) for p in parts):
                    for part, item in zip(parts, value, strict=True):
                        self.assign(part, item, scope)
                    return
                for node in ast.walk(target):
                    if isinstance(node, ast.Name):
                        scope.local[node.id] = Unknown(node.id)
            case ast.Subscript():
                owner = self.ev.evaluate(target.value, scope)
                key = self.ev.evaluate(target.slice, scope)
                if not isinstance(owner, dict) or isinstance(key, (list, dict, set)):
                    raise UndecidedError
                owner[key] = value
            case ast.Attribute():
                owner = self.ev.safe(target.value, scope)
                if isinstance(owner, ClassRef):
                    self.ev.classes.override(owner, target.attr, value)
            case _:
                raise UndecidedError


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The names of a function's parameters, without `*args` and `**kwargs`."""
    spec = node.args
    return [a.arg for a in [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]]
