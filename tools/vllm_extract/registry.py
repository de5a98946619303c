"""The model registry: which architectures a release knows, and the class of each."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.values import ClassRef, to_json

if TYPE_CHECKING:
    from tools.vllm_extract.evaluate import Evaluator

_REGISTRY: Final = "vllm.model_executor.models.registry"
_MODELS: Final = "vllm.model_executor.models"


@dataclass(frozen=True, slots=True)
class Entry:
    """One registered architecture: where its class is imported from, and its registry tables."""

    module: str
    cls: str
    sections: tuple[str, ...]


@dataclass(slots=True)
class Registry:
    """The registered architectures, and those that once were.

    Attributes:
        entries: Architecture name → entry.
        removed: Architecture name → the last release that had it, as vLLM tells its users.
        out_of_tree: Architecture name → the plugin that provides it.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    removed: dict[str, str] = field(default_factory=dict)
    out_of_tree: dict[str, str] = field(default_factory=dict)


def read_registry(ev: Evaluator) -> Registry:
    """Evaluate the tables of `registry.py`.

    Raises:
        ValueError: The module or an entry does not have the known shape.
    """
    module = ev.module(_REGISTRY)
    if module is None:
        raise ValueError(f"the tree has no {_REGISTRY}")
    out = Registry()
    sections: dict[str, list[str]] = {}
    targets: dict[str, tuple[str, str]] = {}
    for name in list(module.namespace):
        if not (name.startswith("_") and name.endswith(("_MODELS", "_MODEL"))):
            continue
        table = ev.names.force(module.namespace[name], module.scope, name)
        if not isinstance(table, dict) or name == "_VLLM_MODELS":
            continue
        if "PREVIOUSLY" in name:
            out.removed = dict(table)
        elif "OOT" in name:
            out.out_of_tree = {k: str(to_json(v)) for k, v in table.items()}
        else:
            for architecture, target in table.items():
                sections.setdefault(architecture, []).append(name.strip("_").lower())
                targets[architecture] = target
    for architecture, target in targets.items():
        match target:
            case (str(path), str(cls)):
                full = path if path.startswith("vllm.") else f"{_MODELS}.{path}"
                out.entries[architecture] = Entry(full, cls, tuple(sections[architecture]))
            case _:
                raise ValueError(f"registry entry of {architecture} is {to_json(target)}")
    return out


def resolve(ev: Evaluator, entry: Entry) -> ClassRef | str:
    """The class of an entry, or why there is none on the evaluator's platform."""
    module = ev.module(entry.module)
    if module is None:
        return f"there is no module {entry.module}"
    if module.raises:
        return f"its import raises: {module.raises}"
    value = ev.names.attribute(module, entry.cls)
    if isinstance(value, ClassRef):
        return value
    # a class made by a call: X = as_embedding_model(Y)
    binding = module.namespace.get(entry.cls)
    if binding is not None and isinstance(binding.node, ast.Call):
        for argument in binding.node.args:
            made_of = ev.safe(argument, module.scope)
            if isinstance(made_of, ClassRef):
                return made_of
    return f"{entry.module}.{entry.cls} is not settled by the source"
