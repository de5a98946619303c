"""What the methods of a model class do about names, fused projections, skips and quantization."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.classes import MAPPINGS
from tools.vllm_extract.functions import parameters
from tools.vllm_extract.names import Binding, Module, Scope
from tools.vllm_extract.syntax import (
    called_name,
    definitions,
    keyword,
    own_nodes,
    statements,
    unstable_names,
)
from tools.vllm_extract.values import (
    ClassRef,
    FunctionRef,
    Instance,
    Json,
    Unknown,
    Value,
    has_unknown,
    text,
    to_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.vllm_extract.evaluate import Evaluator

_MOE_LAYERS: Final = ("FusedMoE", "SharedFusedMoE", "FusedMoEFactory")
_LINEAR: Final = ("Linear", "LMHead")
_TIE_WORDS: Final = ("tie_word_embeddings", "tie_weights", "tie_embedding", "share_embeddings")
_SKIP_ARGUMENTS: Final = (
    "skip_prefixes",
    "skip_substrs",
    "ignore_unexpected_prefixes",
    "ignore_unexpected_suffixes",
)
_FUSED_MOE: Final = "vllm.model_executor.layers.fused_moe.layer"


@dataclass(frozen=True, slots=True)
class Record:
    """One observation: in which method, of which kind, and what."""

    method: str
    kind: str
    data: Json


@dataclass(slots=True)
class _Place:
    """A statement while it is looked at."""

    method: ast.FunctionDef | ast.AsyncFunctionDef
    statement: ast.stmt
    when: tuple[str, ...]
    scope: Scope
    out: list[Record] = field(default_factory=list)

    def add(self, kind: str, data: Json) -> None:
        """Note an observation, with its conditions if `data` is a dict."""
        if isinstance(data, dict) and self.when:
            data = {**data, "when": list(self.when)}
        self.out.append(Record(self.method.name, kind, data))


class Harvest:
    """Collects observations of classes for one evaluator; each class once."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.ev = evaluator
        self._records: dict[str, list[Record]] = {}
        self._default_experts: tuple[Value, ...] | None = None

    def records(self, cls: ClassRef) -> list[Record]:
        """The observations in the class's own methods, in the order of the source."""
        if cls.key not in self._records:
            found: list[Record] = []
            for method in self.ev.classes.methods(cls):
                scope = self.scope_of(method, cls.scope, cls)
                loads = "load" in method.name or "weight" in method.name
                for statement, when in statements(method.body):
                    place = _Place(method, statement, when, scope)
                    self._change(place)
                    self._stacked(place)
                    for node in own_nodes(statement):
                        if isinstance(node, ast.Call):
                            self._call(place, node, loads=loads)
                    self._skip_and_tie(place, loads=loads)
                    found += place.out
            self._records[cls.key] = found
        return self._records[cls.key]

    def scope_of(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, outer: Scope, cls: ClassRef | None
    ) -> Scope:
        """A scope as inside the function, its parameters unknown, `self` an instance of `cls`."""
        module: Module = cls.module if cls else outer.module
        scope = Scope(module, {}, {}, outer)
        for index, name in enumerate(parameters(function)):
            is_self = cls is not None and index == 0 and name in ("self", "cls")
            scope.local[name] = Instance(cls) if is_self and cls else Unknown(name)
        self.ev.names.build(function.body, scope)
        for name in unstable_names(function) & scope.bindings.keys():
            scope.bindings[name] = Binding("unknown", source=name)
        return scope

    # -- the two mappings, changed at construction ----------------------------------------
    def _change(self, place: _Place) -> None:
        for target, attribute, operation, key, value in _assignments(place.statement):
            data: dict[str, Json] = {
                "method": place.method.name,
                "on": text(target, 80),
                "attr": "packed" if attribute == MAPPINGS[0] else "mapper",
                "op": operation,
            }
            if key is not None:
                data["key"] = to_json(self.ev.safe(key, place.scope))
            used = list(place.when)
            defs: dict[str, str] = {}
            if value is not None:
                evaluated = self._evaluated(value, place)
                data["value"] = to_json(evaluated)
                if has_unknown(evaluated):
                    open_parts = _expressions(data["value"])
                    defs = self._made_by(value, place.scope, [*used, *open_parts])
                    used += [*open_parts, text(value)]
            defs = definitions(place.method, used) | defs
            defs = {name: d for name, d in defs.items() if not name.endswith(MAPPINGS)}
            if defs:
                data["defs"] = defs
            place.add("change", data)

    def _evaluated(self, value: ast.expr, place: _Place) -> Value:
        """The value, also where it rests on a condition `name != "literal"` that holds here."""
        evaluated = self.ev.safe(value, place.scope)
        if not has_unknown(evaluated):
            return evaluated
        for condition in place.when:
            match _parsed(condition):
                case ast.Compare(
                    left=ast.Name(id=name),
                    ops=[ast.NotEq()],
                    comparators=[ast.Constant(value=str(literal))],
                ):
                    other = f"<not {literal}>"
                    assumed = Scope(place.scope.module, None, {name: other}, place.scope)
                    known = self.ev.safe(value, assumed)
                    if not has_unknown(known) and other not in str(to_json(known)):
                        return known
        return evaluated

    def _made_by(self, value: ast.expr, scope: Scope, used: list[str]) -> dict[str, str]:
        """Definitions inside the functions of the model's module that make an undecided value."""
        out: dict[str, str] = {}
        for node in ast.walk(value):
            if not isinstance(node, ast.Call):
                continue
            function = self.ev.safe(node.func, scope)
            if not isinstance(function, FunctionRef) or not isinstance(
                function.node, ast.FunctionDef
            ):
                continue
            found = definitions(function.node, used)
            for name, argument in zip(parameters(function.node), node.args, strict=False):
                if text(argument) != name:
                    found[name] = text(argument)
            out |= found
        return out

    # -- lists of (fused, shard, id) ------------------------------------------------------
    def _stacked(self, place: _Place) -> None:
        node: ast.expr
        match place.statement:
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=node):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as node):
                pass
            case ast.AugAssign(target=ast.Name(id=name), value=node):
                pass
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="extend"), args=[node, *_]
                )
            ):
                pass
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[first, *_]
                )
            ):
                node = ast.List([first], ast.Load())
            case ast.Return(value=ast.expr() as node) if "mapping" in place.method.name:
                name = place.method.name
            case ast.For(iter=(ast.List() | ast.Tuple()) as node):
                name = "stacked in a loop"
            case _:
                return
        if "mapping" not in name and "stacked" not in name:
            return
        value = self.ev.safe(node, place.scope)
        rows = list(value) if isinstance(value, (list, tuple)) else []
        if isinstance(place.statement, ast.For) and not all(map(_is_row, rows)):
            return
        for row in rows:
            if _is_row(row) and len(row) == 3:
                place.add("stacked", to_json(row))

    # -- calls ----------------------------------------------------------------------------
    def _call(self, place: _Place, call: ast.Call, *, loads: bool) -> None:
        name = called_name(call)
        makes_experts = name.startswith("make_") and "expert" in name
        if makes_experts or name.startswith("fused_moe_make_expert"):
            found = {
                k.arg[5:].removesuffix("_proj_name"): to_json(self.ev.safe(k.value, place.scope))
                for k in call.keywords
                if k.arg and k.arg.startswith("ckpt_") and k.arg.endswith("_proj_name")
            }
            if found:
                place.add("expert", found)
            return
        if name in _MOE_LAYERS:
            given = keyword(call, "ckpt_names")
            names = self.ev.safe(given, place.scope) if given else self._experts_by_default()
            if isinstance(names, tuple) and len(names) == 3:
                gate, down, up = map(to_json, names)
                place.add("expert", {"gate": gate, "down": down, "up": up})
        elif name == "AutoWeightsLoader":
            found = {
                k.arg: self._either(k.value, place.scope)
                for k in call.keywords
                if k.arg in _SKIP_ARGUMENTS
            }
            if found:
                place.add("loader", found)
        elif name == "init_vllm_registered_model":
            found = {
                k.arg: self._either(k.value, place.scope)
                for k in call.keywords
                if k.arg in ("architectures", "hf_config")
            }
            place.add("inner", found)
        elif loads and name == "WeightsMapper":
            place.add("load_mapper", {"mapper": to_json(self.ev.safe(call, place.scope))})
        elif loads and name == "replace" and len(call.args) >= 2:
            old, new = (self.ev.safe(a, place.scope) for a in call.args[:2])
            if isinstance(old, str) and isinstance(new, str) and ("." in old or "_" in old):
                place.add("rename", {"from": old, "to": new})
        elif name.endswith(_LINEAR) and name[:1].isupper():
            self._linear(place, call, name)

    def _experts_by_default(self) -> tuple[Value, ...]:
        """The names a fused-experts layer reads by itself, in releases where it knows them."""
        if self._default_experts is None:
            self._default_experts = ()
            module = self.ev.module(_FUSED_MOE)
            for node in ast.walk(module.tree) if module else ():
                if not isinstance(node, ast.FunctionDef) or module is None:
                    continue
                for name, default in _defaults(node):
                    value = self.ev.safe(default, module.scope) if name == "ckpt_names" else None
                    if isinstance(value, tuple):
                        self._default_experts = value
        return self._default_experts

    def _linear(self, place: _Place, call: ast.Call, name: str) -> None:
        quant = keyword(call, "quant_config")
        passed = quant is not None and not (isinstance(quant, ast.Constant) and quant.value is None)
        place.add(
            "linear",
            {"module": _module_name(place.statement, call), "layer": name, "quantized": passed},
        )

    def _either(self, node: ast.expr, scope: Scope) -> Json:
        """A literal, or `{"if": test, "then": ..., "else": ...}` for a conditional expression."""
        if isinstance(node, ast.Name) and scope.namespace and node.id in scope.namespace:
            bound = scope.namespace[node.id].node
            node = bound if isinstance(bound, ast.IfExp) else node
        value = self.ev.safe(node, scope)
        if isinstance(node, ast.IfExp) and isinstance(value, Unknown):
            return {
                "if": text(node.test),
                "then": self._either(node.body, scope),
                "else": self._either(node.orelse, scope),
            }
        return to_json(value)

    # -- hand-written skips and tied embeddings -------------------------------------------
    def _skip_and_tie(self, place: _Place, *, loads: bool) -> None:
        statement = place.statement
        if not isinstance(statement, ast.If) or not statement.body:
            return
        test = text(statement.test)
        tied = any(word in test for word in _TIE_WORDS)
        if loads and isinstance(statement.body[-1], ast.Continue) and len(statement.body) <= 2:
            literal = any(
                isinstance(n, ast.Constant) and isinstance(n.value, str)
                for n in ast.walk(statement.test)
            )
            if literal or tied:
                place.out.append(Record(place.method.name, "skip", test))
        if tied and "get_pp_group" not in test:  # that one is about where the embedding lives
            then = text(statement.body[0], 160)
            place.out.append(Record(place.method.name, "tie", {"if": test, "then": then}))


def _assignments(
    statement: ast.stmt,
) -> Iterator[tuple[ast.expr, str, str, ast.expr | None, ast.expr | None]]:
    """(object, attribute, operation, key, value) for each change of one of the mappings."""
    targets: list[ast.expr]
    match statement:
        case ast.Assign(targets=targets, value=value):
            operation = "="
        case ast.AnnAssign(target=annotated, value=ast.expr() as value):
            targets, operation = [annotated], "="
        case ast.AugAssign(target=increased, value=value):
            targets, operation = [increased], "|="
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Attribute() as changed, attr=method), args=args
            )
        ) if changed.attr in MAPPINGS and method in ("update", "pop", "setdefault"):
            yield changed.value, changed.attr, method, None, args[0] if args else None
            return
        case _:
            return
    for target in targets:
        match target:
            case ast.Attribute(attr=attribute) if attribute in MAPPINGS:
                yield target.value, attribute, operation, None, value
            case ast.Subscript(value=ast.Attribute(attr=attribute) as owner) if (
                attribute in MAPPINGS
            ):
                yield owner.value, attribute, "[]=", target.slice, value


def _expressions(value: Json) -> list[str]:
    """The source texts of the undecided parts of a JSON value."""
    if isinstance(value, dict):
        own = [value["$expr"]] if isinstance(value.get("$expr"), str) else []
        return own + [e for v in value.values() for e in _expressions(v)]
    if isinstance(value, list):
        return [e for v in value for e in _expressions(v)]
    return []


def _is_row(row: Value) -> bool:
    if not isinstance(row, (list, tuple)) or len(row) not in (3, 4):
        return False
    return isinstance(row[0], str) and isinstance(row[1], str)


def _defaults(node: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    names = [a.arg for a in [*node.args.posonlyargs, *node.args.args]]
    count = len(node.args.defaults)
    yield from zip(names[len(names) - count :], node.args.defaults, strict=True)
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is not None:
            yield argument.arg, default


def _module_name(statement: ast.stmt, call: ast.Call) -> str:
    """The last part of the built module's name: of its prefix, else the attribute it becomes."""
    prefix = keyword(call, "prefix")
    if isinstance(prefix, ast.Call) and prefix.args:  # maybe_prefix(prefix, "lm_head")
        prefix = prefix.args[-1]
    match prefix:
        case ast.Constant(value=str(name)):
            return name.rpartition(".")[2]
        case ast.JoinedStr(values=[*_, ast.Constant(value=str(name))]) if "." in name:
            return name.rpartition(".")[2]
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr=name)]):
            return name
    return ""


def _parsed(source: str) -> ast.expr | None:
    try:
        return ast.parse(source, mode="eval").body
    except SyntaxError:  # "<except>", or a text that was cut
        return None
