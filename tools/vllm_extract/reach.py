"""Which model classes an architecture builds, and which of their methods can run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.classes import MAPPINGS
from tools.vllm_extract.names import Scope
from tools.vllm_extract.values import ClassRef, FunctionRef, Value

if TYPE_CHECKING:
    from tools.vllm_extract.harvest import Harvest, Record

MODEL_PACKAGES: Final = ("vllm.model_executor.models", "vllm.models")
_HELPERS: Final = frozenset(
    {
        "utils",
        "interfaces",
        "interfaces_base",
        "adapters",
        "registry",
        "vision",
        "config",
        "module_mapping",
        "expert_substitution",
    }
)
_NOT_BUILDING: Final = ("forward", "compute_logits", "forward_cuda", "load_weights")
_MOST_CLASSES: Final = 80
_MOST_NAMES: Final = 400


def in_models(module: str) -> bool:
    """Whether a module holds models, not the helpers that all of them share."""
    first, _, rest = module.partition(f"{MODEL_PACKAGES[0]}.")
    if not first and rest in _HELPERS:
        return False
    return any(module == p or module.startswith(f"{p}.") for p in MODEL_PACKAGES)


class Reach:
    """Follows classes through the code of one release."""

    def __init__(self, harvest: Harvest) -> None:
        self.harvest, self.ev = harvest, harvest.ev
        self._methods: dict[str, list[tuple[ClassRef, ast.FunctionDef | ast.AsyncFunctionDef]]] = {}
        self._named: dict[str, list[ClassRef]] = {}

    def observed(self, cls: ClassRef) -> list[tuple[ClassRef, Record]]:
        """The observations in methods that an instance of `cls` can run, with their class."""
        runs = {(owner.key, method.name) for owner, method in self.methods(cls)}
        return [
            (owner, record)
            for owner in self.ev.classes.mro(cls)
            if isinstance(owner, ClassRef) and in_models(owner.module.name)
            for record in self.harvest.records(owner)
            if (owner.key, record.method) in runs
        ]

    def components(self, cls: ClassRef) -> list[ClassRef]:
        """`cls` and the model classes named by code that it runs, nearest first.

        Follows every class that the code names, so it errs on the side of too many.
        """
        seen: set[str] = set()
        out: list[ClassRef] = []
        queue = [cls]
        while queue and len(out) < _MOST_CLASSES:
            current = queue.pop(0)
            if current.key not in seen:
                seen.add(current.key)
                out.append(current)
                queue += self.named(current)
        return out

    def methods(
        self, cls: ClassRef
    ) -> list[tuple[ClassRef, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """The methods that can run on an instance of exactly `cls`, with the class of each.

        An overridden method counts only while the overriding one calls up to it.
        """
        if cls.key not in self._methods:
            out = []
            goes_on: dict[str, bool] = {}
            for owner in self.ev.classes.mro(cls):
                if isinstance(owner, ClassRef):
                    for method in self.ev.classes.methods(owner):
                        if goes_on.get(method.name, True):
                            out.append((owner, method))
                            goes_on[method.name] = self._calls_up(method, owner)
            self._methods[cls.key] = out
        return self._methods[cls.key]

    def _calls_up(self, method: ast.AST, owner: ClassRef) -> bool:
        name = method.name  # type: ignore[attr-defined]
        for node in ast.walk(method):
            match node:
                case ast.Attribute(attr=attr, value=ast.Call(func=ast.Name(id="super"))):
                    if attr == name:
                        return True
                case ast.Attribute(attr=attr, value=(ast.Name() | ast.Attribute()) as base):
                    if attr == name and isinstance(self.ev.safe(base, owner.scope), ClassRef):
                        return True
        return False

    def named(self, cls: ClassRef) -> list[ClassRef]:
        """The model classes that code run by an instance of `cls` names, annotations left out."""
        if cls.key not in self._named:
            self._named[cls.key] = []  # guards against a cycle
            visit = _Visit(self, cls)
            for owner, method in self.methods(cls):
                if in_models(owner.module.name):
                    visit.function(method, self.ev.classes.body(owner))
            visit.attributes()
            self._named[cls.key] = visit.found
        return self._named[cls.key]


class _Visit:
    """One walk through the code of a class, noting the model classes it names."""

    def __init__(self, reach: Reach, cls: ClassRef) -> None:
        self.ev, self.cls = reach.ev, cls
        self.found: list[ClassRef] = []
        self._seen: set[str] = {cls.key}

    def note(self, value: Value) -> None:
        """Add a class; look into a container of classes, and into a function of the models."""
        match value:
            case dict():
                self.note(list(value.values()))
            case list() | tuple():
                for item in value[:64]:
                    if isinstance(item, ClassRef):
                        self.note(item)
            case ClassRef():
                if in_models(value.module.name) and value.key not in self._seen:
                    self._seen.add(value.key)
                    self.found.append(value)
            case FunctionRef(node=ast.FunctionDef() as node, owner=None):
                key = f"{value.module.name}.{node.name}()"
                new = in_models(value.module.name) and key not in self._seen
                if new and len(self._seen) < _MOST_NAMES:
                    self._seen.add(key)
                    self.function(node, value.scope)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, outer: Scope) -> None:
        """Walk a function that takes part in building the model."""
        if node.name in _NOT_BUILDING:
            return
        scope = Scope(outer.module, {}, None, outer)
        imports = [n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom))]
        self.ev.names.build(imports, scope)
        for statement in node.body:
            self.walk(statement, scope)
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.walk(default, outer)

    def walk(self, root: ast.AST, scope: Scope) -> None:
        """Walk any other code."""
        stack: list[ast.AST] = [root]
        while stack:
            node = stack.pop()
            match node:
                case ast.arg():
                    continue
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.function(node, scope)
                    continue
                case ast.AnnAssign():
                    if node.value is not None:
                        stack.append(node.value)
                    continue
                case ast.Call(func=ast.Name(id="isinstance" | "issubclass" | "cast")):
                    continue
                case ast.Attribute(value=(ast.Name() | ast.Attribute()) as owner):
                    # Base.method(...) or Class.attribute is no use of the class as a component
                    if isinstance(owner, ast.Name) and isinstance(
                        self.ev.safe(owner, scope), ClassRef
                    ):
                        continue
                    value = self.ev.safe(node, scope)
                    if isinstance(value, (ClassRef, FunctionRef)):
                        self.note(value)
                        continue
                case ast.Name(ctx=ast.Load()):
                    self.note(self.ev.safe(node, scope))
                    continue
            stack.extend(ast.iter_child_nodes(node))

    def attributes(self) -> None:
        """Note classes held by class attributes: `model_cls = SomeModel`."""
        done: set[str] = set(MAPPINGS)
        for owner in self.ev.classes.mro(self.cls):
            if not isinstance(owner, ClassRef) or not in_models(owner.module.name):
                continue
            body = self.ev.classes.body(owner)
            for name, binding in body.bindings.items():
                if binding.kind == "expr" and name not in done:
                    done.add(name)
                    value = self.ev.names.force(binding, body, name)
                    if isinstance(value, (ClassRef, list, tuple, dict)):
                        self.note(value)
