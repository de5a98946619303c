"""What a call returns: vLLM's own functions, methods of literals, and a few known others."""

from __future__ import annotations

import ast
import builtins
import re
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.classes import decorators
from tools.vllm_extract.values import (
    MAPPER_FIELDS,
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
    to_json,
)

if TYPE_CHECKING:
    from tools.vllm_extract.evaluate import Evaluator
    from tools.vllm_extract.names import Scope

UTILS: Final = "vllm.model_executor.models.utils"
_PURE: Final = frozenset(
    {
        "dict",
        "list",
        "tuple",
        "set",
        "frozenset",
        "str",
        "int",
        "len",
        "range",
        "sorted",
        "zip",
        "enumerate",
        "bool",
        "min",
        "max",
        "sum",
        "any",
        "all",
        "reversed",
    }
)
_WHOLE: Final = frozenset({"sorted", "min", "max", "sum", "any", "all"})  # need every element known
_STRING: Final = frozenset(
    {
        "replace",
        "split",
        "rsplit",
        "strip",
        "lstrip",
        "rstrip",
        "startswith",
        "endswith",
        "lower",
        "upper",
        "removeprefix",
        "removesuffix",
        "partition",
        "rpartition",
        "count",
    }
)
_OTHER_PLATFORMS: Final = ("is_tpu", "is_hpu", "is_neuron", "is_out_of_tree")


class Calls:
    """Evaluates calls for one evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.ev = evaluator
        self._fields: list[str] | None = None

    def evaluate(self, node: ast.Call, scope: Scope) -> Value:
        """The value of a call expression."""
        function = self.ev.evaluate(node.func, scope)
        if isinstance(function, Unknown):
            return Unknown.of(node)
        args: list[Value] = []
        kw: dict[str, Value] = {}
        for argument in node.args:
            if not isinstance(argument, ast.Starred):
                args.append(self.ev.evaluate(argument, scope))
                continue
            value = self.ev.evaluate(argument.value, scope)
            if not isinstance(value, (list, tuple)):
                return Unknown.of(node)
            args.extend(value)
        for keyword in node.keywords:
            value = self.ev.evaluate(keyword.value, scope)
            if keyword.arg is not None:
                kw[keyword.arg] = value
            elif isinstance(value, dict) and all(isinstance(k, str) for k in value):
                kw.update(value)
            else:
                return Unknown.of(node)
        result = self._apply(function, args, kw)
        return Unknown.of(node) if result is UNDECIDED else result

    def mapper_fields(self) -> list[str]:
        """The fields of `WeightsMapper` in this release, in their order."""
        if self._fields is None:
            module = self.ev.module(UTILS)
            binding = module.namespace.get("WeightsMapper") if module else None
            node = binding.node if binding else None
            self._fields = [
                statement.target.id
                for statement in (node.body if isinstance(node, ast.ClassDef) else [])
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
            ]
        return self._fields

    def _apply(self, function: Value, args: list[Value], kw: dict[str, Value]) -> Value:
        match function:
            case BoundName():
                return self._method(function, args, kw)
            case ClassRef():
                return self._construct(function, args, kw)
            case FunctionRef():
                adapts = function.module.name.endswith(".models.adapters")
                if adapts and function.name.startswith("as_"):
                    return next((a for a in args[:1] if isinstance(a, ClassRef)), UNDECIDED)
                return self._call(function, args, kw)
            case External():
                return self._external(function.name, args, kw)
        return UNDECIDED

    def _call(self, function: FunctionRef, args: list[Value], kw: dict[str, Value]) -> Value:
        try:
            return self.ev.functions.call(function, args, kw)
        except (UndecidedError, RaisedError):
            return UNDECIDED

    def _construct(self, cls: ClassRef, args: list[Value], kw: dict[str, Value]) -> Value:
        names = [k.name for k in self.ev.classes.mro(cls) if isinstance(k, ClassRef)]
        if "WeightsMapper" not in names:
            return UNDECIDED
        tables = dict(zip(self.mapper_fields(), args, strict=False))
        tables |= {k: v for k, v in kw.items() if k in MAPPER_FIELDS}
        return Mapper(
            tables, [f"{k}={to_json(v)}" for k, v in kw.items() if k not in MAPPER_FIELDS]
        )

    # -- methods -----------------------------------------------------------------------
    def _method(self, bound: BoundName, args: list[Value], kw: dict[str, Value]) -> Value:
        owner, name = bound.owner, bound.name
        match owner:
            case CurrentPlatform():
                return self._platform(name)
            case Mapper():
                return _rename_only(owner) if name == "get_rename_mapper" else UNDECIDED
            case dict():
                return _dict_method(owner, name, args, kw)
            case list():
                return _list_method(owner, name, args)
            case set() if name == "add":
                owner.add(args[0])
                return None
            case str():
                return _string_method(owner, name, args, kw)
            case ClassRef() | Instance():
                return self._own_method(owner, name, args, kw)
        return UNDECIDED

    def _platform(self, name: str) -> Value:
        if name in _OTHER_PLATFORMS:
            return False
        if name == "is_cuda_alike":
            return self.ev.platform in ("cuda", "rocm")
        if name in ("is_cuda", "is_rocm", "is_xpu", "is_cpu"):
            return name == f"is_{self.ev.platform}"
        return UNDECIDED

    def _own_method(
        self, owner: ClassRef | Instance, name: str, args: list[Value], kw: dict[str, Value]
    ) -> Value:
        found = self.ev.classes.attribute(owner if isinstance(owner, ClassRef) else owner.cls, name)
        if found is None or not isinstance(found.value, FunctionRef):
            return UNDECIDED
        if not isinstance(found.value.node, ast.FunctionDef):
            return UNDECIDED
        kinds = decorators(found.value.node)
        bound = "classmethod" in kinds or isinstance(owner, Instance)
        if bound and "staticmethod" not in kinds:
            args = [owner, *args]
        return self._call(found.value, args, kw)

    # -- names from outside ------------------------------------------------------------
    def _external(self, name: str, args: list[Value], kw: dict[str, Value]) -> Value:
        first = args[0] if args else None
        match name, args:
            case (("re.compile" | "regex.compile"), [str(pattern), *_]):
                return Pattern(pattern)
            case (("re.escape" | "regex.escape"), [str(pattern), *_]):
                return re.escape(pattern)
            case "dataclasses.replace", [Mapper() as mapper, *_]:
                changed = {k: v for k, v in kw.items() if k in MAPPER_FIELDS}
                return Mapper({**mapper.tables, **changed}, mapper.undecided)
            case (("typing.get_args" | "typing_extensions.get_args"), [tuple(), *_]):
                return first
            case (("typing.cast" | "typing_extensions.cast"), [_, value]):
                return value
            case (("copy.copy" | "copy.deepcopy"), [_, *_]):
                return type(first)(first) if isinstance(first, (dict, list)) else first
            case (("types.MappingProxyType" | "collections.OrderedDict"), [dict(), *_]):
                return dict(args[0])
            case "builtins.getattr", [_, str(attribute), *rest]:
                return self._getattr(first, attribute, rest)
            case "builtins.dict.fromkeys", [(list() | tuple() | set()) as keys, *rest]:
                return dict.fromkeys(keys, rest[0] if rest else None)
        if name.startswith("builtins."):
            return _builtin(name.removeprefix("builtins."), args, kw)
        return UNDECIDED

    def _getattr(self, owner: Value, name: str, default: list[Value]) -> Value:
        if not isinstance(owner, (ModuleRef, ClassRef, Instance)):
            return UNDECIDED
        if isinstance(owner, ClassRef) and default and not self.ev.classes.attribute(owner, name):
            return default[0]
        value = self.ev.attribute(owner, name, "")
        return UNDECIDED if value == Unknown("") else value


class _Undecided:
    """The answer of a call that could not be decided; its caller knows the source text."""


UNDECIDED: Final = _Undecided()


def _rename_only(mapper: Mapper) -> Mapper:
    tables: dict[str, Value] = {}
    for name, table in mapper.tables.items():
        kept = table
        if isinstance(table, dict):
            kept = {k: v for k, v in table.items() if v is not None}
        tables[name] = {} if name == "orig_to_new_stacked" else kept
    return Mapper(tables, mapper.undecided)


def _dict_method(
    owner: dict[Value, Value], name: str, args: list[Value], kw: dict[str, Value]
) -> Value:
    default = args[1] if len(args) > 1 else None
    if args and name != "update" and isinstance(args[0], (list, dict, set, Mapper)):
        return UNDECIDED
    match name:
        case "items":
            return [tuple(item) for item in owner.items()]
        case "keys":
            return list(owner)
        case "values":
            return list(owner.values())
        case "copy":
            return dict(owner)
        case "get" if args and not has_unknown(args[0]):
            if args[0] in owner:
                return owner[args[0]]
            return UNDECIDED if has_unknown(list(owner)) else default
        case "update":
            if args and isinstance(args[0], dict):
                owner.update(args[0])
            elif args:
                owner[Unknown(f"**{to_json(args[0])}")] = Unknown("update")
            owner.update(kw)
            return None
        case "setdefault" if args:
            return owner.setdefault(args[0], default)
        case "pop" if args:
            return owner.pop(args[0], default)
    return UNDECIDED


def _list_method(owner: list[Value], name: str, args: list[Value]) -> Value:
    match name, args:
        case "append", [value]:
            owner.append(value)
            return None
        case "extend", [value]:
            known = isinstance(value, (list, tuple))
            owner.extend(value if known else [Unknown(f"*{to_json(value)}")])
            return None
        case "copy", []:
            return list(owner)
    return UNDECIDED


def _string_method(owner: str, name: str, args: list[Value], kw: dict[str, Value]) -> Value:
    if name == "join" and args and isinstance(args[0], (list, tuple)):
        return owner.join(args[0]) if all(isinstance(a, str) for a in args[0]) else UNDECIDED
    plain = all(isinstance(a, (str, int, tuple, type(None))) for a in args)
    if name not in _STRING or kw or not plain:
        return UNDECIDED
    try:
        return getattr(owner, name)(*args)
    except (TypeError, ValueError):
        return UNDECIDED


def _builtin(name: str, args: list[Value], kw: dict[str, Value]) -> Value:
    if name not in _PURE or any(isinstance(a, Unknown) for a in args):
        return UNDECIDED
    if name in _WHOLE and any(has_unknown(a) for a in args):
        return UNDECIDED
    opaque = (ClassRef, FunctionRef, ModuleRef, Instance, BoundName, Mapper, External)
    if any(isinstance(a, opaque) for a in args):
        return UNDECIDED
    try:
        result = getattr(builtins, name)(*args, **kw)
    except (TypeError, ValueError):
        return UNDECIDED
    return list(result) if name in ("zip", "enumerate", "reversed") else result
