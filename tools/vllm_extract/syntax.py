"""Plain questions to a syntax tree, asked without evaluating anything."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.names import IN_PLACE, FunctionNode
from tools.vllm_extract.values import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CONDITION_LIMIT: Final = 400
# Differ between Python versions, or say nothing about what the code does.
_IGNORED_FIELDS: Final = frozenset(
    {"ctx", "kind", "type_params", "type_comment", "annotation", "returns"}
)


def fingerprint(node: ast.AST) -> str:
    """A hash of what the code does: without docstrings, comments, annotations and layout."""
    return hashlib.sha256(_shape(node).encode()).hexdigest()[:12]


def _shape(value: object) -> str:
    if isinstance(value, list):
        return f"[{','.join(_shape(v) for v in value)}]"
    if not isinstance(value, ast.AST):
        return repr(value)
    parts = [type(value).__name__]
    for name, part in ast.iter_fields(value):
        if name in _IGNORED_FIELDS:
            continue
        documented = name == "body" and isinstance(value, (ast.ClassDef, *FunctionNode))
        kept = part[1:] if documented and ast.get_docstring(value) is not None else part  # type: ignore[arg-type]
        parts.append(f"{name}={_shape(kept)}")
    return f"({' '.join(parts)})"


def statements(
    body: Iterable[ast.stmt], when: tuple[str, ...] = ()
) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    """Every statement of a body in order, nested ones too, each with its `if` conditions."""
    for statement in body:
        yield statement, when
        match statement:
            case ast.If():
                test = text(statement.test, CONDITION_LIMIT)
                yield from statements(statement.body, (*when, test))
                yield from statements(statement.orelse, (*when, f"not ({test})"))
            case ast.For() | ast.While() | ast.AsyncFor():
                yield from statements(statement.body, when)
                yield from statements(statement.orelse, when)
            case ast.With() | ast.AsyncWith() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from statements(statement.body, when)
            case ast.Try():
                yield from statements(statement.body, when)
                for handler in statement.handlers:
                    yield from statements(handler.body, (*when, "<except>"))
                yield from statements(statement.orelse, when)
                yield from statements(statement.finalbody, when)


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions that belong to a statement itself, not to statements nested in it."""
    match statement:
        case (
            ast.If(test=head) | ast.While(test=head) | ast.For(iter=head) | ast.AsyncFor(iter=head)
        ):
            yield from ast.walk(head)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                yield from ast.walk(item.context_expr)
        case ast.Try() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return
        case _:
            yield from ast.walk(statement)


def called_name(call: ast.Call) -> str:
    """The last name of what is called: `get` for `a.b.get(...)`."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument, None if it is not given."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def unstable_names(function: ast.AST) -> set[str]:
    """Local names bound more than once or changed in place: no one value holds everywhere."""
    bound: Counter[str] = Counter()
    changed: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets):
                for target in targets:
                    match target:
                        case ast.Name(id=name):
                            bound[name] += 1
                        case ast.Subscript(value=ast.Name(id=name)):
                            changed.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                bound[name] += 1
            case ast.NamedExpr(target=ast.Name(id=name)):
                bound[name] += 1
            case ast.AugAssign(target=ast.Name(id=name)):
                changed.add(name)
            case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name))):
                changed.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                if method in IN_PLACE:
                    changed.add(name)
            case ast.Delete(targets=targets):
                for target in targets:
                    match target:
                        case ast.Subscript(value=ast.Name(id=name)):
                            changed.add(name)
    return changed | {name for name, count in bound.items() if count > 1}


def definitions(
    function: ast.FunctionDef | ast.AsyncFunctionDef, used: Iterable[str]
) -> dict[str, str]:
    """What the function assigns to the names in `used` (source texts), and to names in those.

    A name assigned more than once has no one definition and is left out.
    """
    assigned: dict[str, list[ast.expr]] = {}
    for statement, _ in statements(function.body):
        match statement:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
                assigned.setdefault(text(target), []).append(value)
            case ast.AnnAssign(
                target=ast.Name() | ast.Attribute() as target, value=ast.expr() as value
            ):
                assigned.setdefault(text(target), []).append(value)
    for node in ast.walk(function):
        if isinstance(node, ast.NamedExpr):
            assigned.setdefault(text(node.target), []).append(node.value)
    out: dict[str, str] = {}
    queue = [name for source in used for name in names_in(source)]
    while queue:
        name = queue.pop()
        values = assigned.get(name, [])
        if len(values) == 1 and name not in out and name != "self":
            out[name] = text(values[0], CONDITION_LIMIT)
            queue += names_in(out[name])
    return out


def names_in(source: str) -> list[str]:
    """The names and attributes an expression's text reads; none if it is no expression."""
    try:
        tree = ast.parse(source, mode="eval")
    except SyntaxError:
        return []
    nodes = (n for n in ast.walk(tree) if isinstance(n, (ast.Name, ast.Attribute)))
    return sorted({ast.unparse(n) for n in nodes})
