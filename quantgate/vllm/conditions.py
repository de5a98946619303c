"""Decides, from a checkpoint's config.json, what vLLM's source leaves to it.

A recorded condition is Python text, with the definitions of the names in it. It is parsed and
walked, never run: names, attributes of the config, comparisons, arithmetic on small numbers,
`getattr`, `hasattr`, `len`, `all`, `any`, `range`, `enumerate` and comprehensions are known.
Everything else, and a key that config.json lacks, is undecided, never guessed.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_MOST_STEPS: Final = 100_000
_LONGEST: Final = 4096
_ROOT: Final = "vllm_config.model_config.hf_config"
_TEXT_ROOT: Final = "vllm_config.model_config.hf_text_config"
_QUANT_CONFIG: Final = "vllm_config.quant_config"
_OPERATORS: Final[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class UndecidedError(Exception):
    """The config does not settle it, or the text holds something unknown."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a condition comes to.

    Attributes:
        holds: None if undecided.
        reason: Why it is undecided, empty if it is not.
        assumed: Keys that config.json lacks and that `hasattr` or a default of `getattr` stood
            in for. The configuration class may have a default of its own, so a decision with
            assumptions is likely, not certain.
    """

    holds: bool | None
    reason: str = ""
    assumed: tuple[str, ...] = ()


def decide(when: Sequence[str], defs: Mapping[str, str], config: Mapping[str, Any]) -> Decision:
    """Whether all conditions hold for a checkpoint with this config.json."""
    evaluation = _Evaluation(config, defs)
    undecided = ""
    for source in when:
        try:
            if not evaluation.text(source):
                return Decision(holds=False, assumed=tuple(evaluation.assumed))
        except UndecidedError as error:
            undecided = undecided or f"{source}: {error}"
    holds = None if undecided else True
    return Decision(holds, undecided, tuple(evaluation.assumed))


def settle(value: Any, defs: Mapping[str, str], config: Mapping[str, Any]) -> Any:
    """A recorded value with its open parts computed from the config.

    Raises:
        UndecidedError: A part cannot be.
    """
    evaluation = _Evaluation(config, defs)

    def settled(part: Any) -> Any:
        if isinstance(part, list):
            return [settled(p) for p in part]
        if not isinstance(part, dict):
            return part
        if isinstance(part.get("$expr"), str):
            return evaluation.text(part["$expr"])
        out: dict[str, Any] = {}
        for key, inner in part.items():
            if key.startswith("$expr:**"):
                spread = evaluation.text(key.removeprefix("$expr:**"))
                if not isinstance(spread, dict):
                    raise UndecidedError("not a mapping")
                out |= spread
            elif key.startswith("$expr"):
                raise UndecidedError("an undecided key")
            else:
                out[key] = settled(inner)
        return out

    return settled(value)


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a config that describes the language model: the whole, if it is only that."""
    thinker = config.get("thinker_config")
    owner = thinker if isinstance(thinker, dict) else config
    for key in ("text_config", "llm_config"):
        if isinstance(owner.get(key), dict):
            inner: Mapping[str, Any] = owner[key]
            return inner
    return owner


@dataclass(frozen=True, slots=True)
class _Config:
    """A config object as vLLM's code sees it: attributes are keys."""

    keys: Mapping[str, Any]


class _Opaque:
    """Something that is there, and nothing more is known of it."""


@dataclass(slots=True)
class _Evaluation:
    """The evaluation of texts that share definitions, with a limit on the work."""

    config: Mapping[str, Any]
    defs: Mapping[str, str]
    assumed: list[str] = field(default_factory=list)
    _steps: int = 0
    _open: set[str] = field(default_factory=set)

    def text(self, source: str) -> Any:
        try:
            tree = ast.parse(source, mode="eval")
        except (SyntaxError, ValueError, RecursionError) as error:
            raise UndecidedError("not an expression") from error
        try:
            return self.value(tree.body, {})
        except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
            raise UndecidedError(str(error)) from error

    def value(self, node: ast.expr, local: dict[str, Any]) -> Any:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise UndecidedError("too much work")
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name() | ast.Attribute():
                return self._name(node, local)
            case ast.BoolOp(op=op, values=values):
                return self._bool(values, local, conjunction=isinstance(op, ast.And))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._truth(self.value(operand, local))
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
                return self._arithmetic(op, self.value(left, local), self.value(right, local))
            case ast.Compare():
                return self._compare(node, local)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                chosen = body if self._truth(self.value(test, local)) else orelse
                return self.value(chosen, local)
            case ast.NamedExpr(target=ast.Name(id=name), value=inner):
                local[name] = self.value(inner, local)
                return local[name]
            case ast.List(elts=elts):
                return [self.value(e, local) for e in elts]
            case ast.Tuple(elts=elts):
                return tuple(self.value(e, local) for e in elts)
            case ast.Subscript(value=inner, slice=ast.Slice(lower=lower, upper=upper, step=None)):
                ends = [None if b is None else self.value(b, local) for b in (lower, upper)]
                return _sequence(self.value(inner, local))[slice(*ends)]
            case ast.JoinedStr(values=parts):
                return "".join(self._part(p, local) for p in parts)
            case (
                ast.ListComp(elt=elt, generators=gens) | ast.GeneratorExp(elt=elt, generators=gens)
            ):
                return [self.value(elt, inner) for inner in self._loops(gens, local)]
            case ast.SetComp(elt=elt, generators=gens):
                return {self.value(elt, inner) for inner in self._loops(gens, local)}
            case ast.DictComp(key=key, value=inner_value, generators=gens):
                return {
                    self.value(key, inner): self.value(inner_value, inner)
                    for inner in self._loops(gens, local)
                }
            case ast.Call():
                return self._call(node, local)
        raise UndecidedError(f"{type(node).__name__} is not known")

    def _name(self, node: ast.Name | ast.Attribute, local: dict[str, Any]) -> Any:
        name = ast.unparse(node)
        if name in local:
            return local[name]
        if name in self.defs:
            if name in self._open:
                raise UndecidedError(f"{name} is defined by itself")
            self._open.add(name)
            try:
                return self.value(ast.parse(self.defs[name], mode="eval").body, {})
            finally:
                self._open.discard(name)
        if name == _ROOT:
            return _Config(self.config)
        if name == _TEXT_ROOT:
            return _Config(text_config(self.config))
        if name == _QUANT_CONFIG:
            return _Opaque()
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value, local)
            if isinstance(owner, _Config):
                return self._key(owner, node.attr)
        raise UndecidedError(f"{name} is not known")

    @staticmethod
    def _key(owner: _Config, key: str) -> Any:
        if key not in owner.keys:
            raise UndecidedError(f"config.json has no {key}")
        value = owner.keys[key]
        return _Config(value) if isinstance(value, dict) else value

    def _bool(self, values: Sequence[ast.expr], local: dict[str, Any], *, conjunction: bool) -> Any:
        """One operand can decide although another is undecided."""
        last: Any = conjunction
        undecided: UndecidedError | None = None
        for node in values:
            try:
                last = self.value(node, local)
                if self._truth(last) != conjunction:
                    return last
            except UndecidedError as error:
                undecided = undecided or error
        if undecided:
            raise undecided
        return last

    @staticmethod
    def _truth(value: Any) -> bool:
        if isinstance(value, (_Config, _Opaque)):
            raise UndecidedError("the truth of an object is not known")
        return bool(value)

    @staticmethod
    def _arithmetic(op: ast.operator, left: Any, right: Any) -> Any:
        both = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if not both or max(abs(left), abs(right)) > 2**53:
            raise UndecidedError("arithmetic on something else than small numbers")
        return _OPERATORS[type(op)](left, right)

    def _compare(self, node: ast.Compare, local: dict[str, Any]) -> bool:
        left = self.value(node.left, local)
        for op, operand in zip(node.ops, node.comparators, strict=True):
            right = self.value(operand, local)
            if isinstance(op, (ast.Is, ast.IsNot)):
                if left is not None and right is not None:
                    raise UndecidedError("`is` of something else than None")
                holds = (left is right) == isinstance(op, ast.Is)
            elif isinstance(left, (_Config, _Opaque)) or isinstance(right, (_Config, _Opaque)):
                raise UndecidedError("an object is compared")
            elif isinstance(op, (ast.In, ast.NotIn)):
                holds = (left in right) == isinstance(op, ast.In)
            else:
                holds = bool(_OPERATORS[type(op)](left, right))
            if not holds:
                return False
            left = right
        return True

    def _part(self, node: ast.expr, local: dict[str, Any]) -> str:
        match node:
            case ast.Constant(value=str(constant)):
                return constant
            case ast.FormattedValue(value=inner, format_spec=None, conversion=-1):
                value = self.value(inner, local)
                if isinstance(value, (str, int)):
                    return str(value)
        raise UndecidedError("a format is not known")

    def _loops(
        self, generators: Sequence[ast.comprehension], local: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        if not generators:
            yield local
            return
        first, *rest = generators
        for item in _sequence(self.value(first.iter, local)):
            inner = dict(local)
            _assign(first.target, item, inner)
            if all(self._truth(self.value(test, inner)) for test in first.ifs):
                yield from self._loops(rest, inner)

    def _call(self, node: ast.Call, local: dict[str, Any]) -> Any:
        if node.keywords:
            raise UndecidedError("keywords are not known")
        match node.func, node.args:
            case ast.Name(id="hasattr"), [owner, ast.Constant(value=str(key))]:
                return self._has(owner, key, local)
            case ast.Name(id="getattr"), [owner, ast.Constant(value=str(key)), *default]:
                if default and not self._has(owner, key, local):
                    return self.value(default[0], local)
                return self._key(self._owner(owner, local), key)
            case ast.Name(id="_get_text_config"), [owner]:
                return _Config(text_config(self._owner(owner, local).keys))
            case ast.Attribute(attr="get_text_config", value=owner), []:
                return _Config(text_config(self._owner(owner, local).keys))
            case ast.Name(id="set"), []:
                return set()
            case ast.Name(id="range"), args:
                counted = range(*(self.value(a, local) for a in args))
                return _sequence(counted)
            case ast.Name(id=("len" | "all" | "any" | "enumerate") as name), [arg]:
                values = _sequence(self.value(arg, local))
                if name == "len":
                    return len(values)
                if name == "enumerate":
                    return list(enumerate(values))
                return (
                    all(map(self._truth, values))
                    if name == "all"
                    else any(map(self._truth, values))
                )
        raise UndecidedError(f"{ast.unparse(node.func)}() is not known")

    def _owner(self, node: ast.expr, local: dict[str, Any]) -> _Config:
        owner = self.value(node, local)
        if not isinstance(owner, _Config):
            raise UndecidedError(f"{ast.unparse(node)} is no config")
        return owner

    def _has(self, node: ast.expr, key: str, local: dict[str, Any]) -> bool:
        there = key in self._owner(node, local).keys
        if not there and key not in self.assumed:
            self.assumed.append(key)
        return there


def _sequence(value: Any) -> Any:
    if not isinstance(value, (list, tuple, set, dict, range)) or len(value) > _LONGEST:
        raise UndecidedError("not a short sequence")
    return sorted(value) if isinstance(value, set) else value


def _assign(target: ast.expr, value: Any, local: dict[str, Any]) -> None:
    match target:
        case ast.Name(id=name):
            local[name] = value
        case ast.Tuple(elts=parts) if isinstance(value, (list, tuple)) and len(value) == len(parts):
            for part, item in zip(parts, value, strict=True):
                _assign(part, item, local)
        case _:
            raise UndecidedError("a loop target is not known")
