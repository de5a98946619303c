"""The quantization methods of a release: what each needs, reads, claims and applies."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.names import FunctionNode, Scope
from tools.vllm_extract.syntax import called_name, fingerprint, keyword, own_nodes, statements
from tools.vllm_extract.values import (
    ClassRef,
    FunctionRef,
    Json,
    RaisedError,
    UndecidedError,
    Unknown,
    Value,
    has_unknown,
    text,
    to_json,
)

if TYPE_CHECKING:
    from tools.vllm_extract.evaluate import Evaluator
    from tools.vllm_extract.harvest import Harvest

PACKAGE: Final = "vllm.model_executor.layers.quantization"
_BASE: Final = f"{PACKAGE}.base_config:QuantizationConfig"
_LISTED: Final = ("QUANTIZATION_METHODS", "QuantizationMethods")
_PLATFORM_MODULES: Final = ("cuda", "rocm", "cpu", "xpu", "tpu", "hpu", "neuron")
_SKIP_MODES: Final = ("match_mode", "skip_with_substr", "use_fnmatch")


def quantization(harvest: Harvest) -> tuple[Json, dict[str, Json]]:
    """The release's lists, and one record per method.

    Raises:
        ValueError: The list of methods or their table does not have the known shape.
    """
    ev = harvest.ev
    module = ev.module(PACKAGE)
    if module is None:
        raise ValueError(f"the tree has no {PACKAGE}")
    tables = {n: ev.names.attribute(module, n) for n in module.namespace if n in _LISTED}
    names = next((list(t) for t in tables.values() if isinstance(t, (list, tuple))), [])
    if not names or has_unknown(names):
        raise ValueError("the list of quantization methods is not settled by the source")
    deprecated: Value = []
    if "DEPRECATED_QUANTIZATION_METHODS" in module.namespace:
        deprecated = ev.names.attribute(module, "DEPRECATED_QUANTIZATION_METHODS")
    classes = _method_classes(ev)
    methods = {name: _method(harvest, classes[name]) for name in names if name in classes}
    lists = {
        "methods": names,
        "deprecated": to_json(deprecated),
        "without_class": [name for name in names if name not in classes],
        "platform_supported": _platform_lists(ev),
        "schemes": {
            family: _schemes(harvest, f"{PACKAGE}.{family}.schemes")
            for family in ("compressed_tensors", "quark")
        },
    }
    return lists, methods


def _method_classes(ev: Evaluator) -> dict[str, ClassRef]:
    """Method name → its config class: what `get_quantization_config` builds its table of."""
    module = ev.module(PACKAGE)
    node = module.namespace["get_quantization_config"].node if module else None
    if module is None or not isinstance(node, ast.FunctionDef):
        raise ValueError("get_quantization_config is not a function")
    scope = Scope(module, None, {node.args.args[0].arg: Unknown("quantization")}, module.scope)
    body = [
        s
        for s in node.body
        if not (isinstance(s, ast.If) and any(isinstance(x, ast.Raise) for x in s.body))
    ]
    ev.functions.run_tolerantly(body, scope)
    table = scope.local.get("method_to_config")
    rows = table.items() if isinstance(table, dict) else ()
    classes = {k: v for k, v in rows if isinstance(k, str) and isinstance(v, ClassRef)}
    if not classes:
        raise ValueError("get_quantization_config has no table method_to_config")
    return classes


def _method(harvest: Harvest, cls: ClassRef) -> Json:
    ev = harvest.ev
    out: dict[str, Json] = {"class": cls.key}
    for key, getter in (
        ("name", "get_name"),
        ("min_capability", "get_min_capability"),
        ("act_dtypes", "get_supported_act_dtypes"),
        ("config_files", "get_config_filenames"),
    ):
        out[key] = returned(harvest, cls, getter)
    for key, name in (
        ("packed", "packed_modules_mapping"),
        ("ignore_unexpected_suffixes", "_ignore_unexpected_suffixes"),
    ):
        found = ev.classes.attribute(cls, name)
        if found is not None and found.value:
            out[key] = to_json(found.value)
    override = _own_method(ev, cls, "override_quantization_method")
    if override is not None:
        out["overrides"] = _overrides(harvest, override)
    mapper = _own_method(ev, cls, "apply_vllm_mapper")
    if mapper is not None:
        out["mapped_lists"] = sorted(
            text(target)
            for statement in ast.walk(mapper.node)
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Attribute)
        )
    for getter in ("get_cache_scale_mapper", "get_checkpoint_weight_mapper"):
        function = _own_method(ev, cls, getter)
        if function is not None:
            try:
                out[getter.removeprefix("get_")] = to_json(ev.functions.call(function, [], {}))
            except (UndecidedError, RaisedError):
                out[getter.removeprefix("get_")] = to_json(Unknown.of(function.node))
    chooses = _own_method(ev, cls, "get_quant_method")
    if chooses is not None:
        out["code"] = fingerprint(chooses.node)
    out |= _reads(harvest, cls)
    return out


def _own_method(ev: Evaluator, cls: ClassRef, name: str) -> FunctionRef | None:
    """A method that the class does not merely inherit from `QuantizationConfig`."""
    found = ev.classes.attribute(cls, name)
    if found is None or found.owner.key == _BASE:
        return None
    return found.value if isinstance(found.value, FunctionRef) else None


def returned(harvest: Harvest, cls: ClassRef, name: str) -> Json:
    """What a method returns: the value, or `{"returns": [...]}` / `{"abstract": true}`."""
    found = harvest.ev.classes.attribute(cls, name)
    if found is None or not isinstance(found.value, FunctionRef):
        return None
    node = found.value.node
    if not isinstance(node, FunctionNode):
        return None
    scope = harvest.scope_of(node, found.owner.scope, found.owner)
    out: list[dict[str, Json]] = []
    for statement, when in statements(node.body):
        if isinstance(statement, ast.Return):
            value = harvest.ev.safe(statement.value, scope) if statement.value else None
            out.append({"value": to_json(value), **({"when": list(when)} if when else {})})
    if not out:
        return {"abstract": True}
    if len(out) == 1 and "when" not in out[0]:
        return out[0]["value"]
    return {"returns": out}


def _overrides(harvest: Harvest, function: FunctionRef) -> list[Json]:
    """What `override_quantization_method` can answer, None left out."""
    if not isinstance(function.node, FunctionNode):
        return []
    scope = harvest.scope_of(function.node, function.scope, function.owner)
    out: dict[str, Json] = {}
    for statement in ast.walk(function.node):
        if isinstance(statement, ast.Return) and statement.value is not None:
            value = to_json(harvest.ev.safe(statement.value, scope))
            if value is not None:
                out[str(value)] = value
    return [out[k] for k in sorted(out)]


def _reads(harvest: Harvest, cls: ClassRef) -> dict[str, Json]:
    """The config keys that the class reads, and how it looks up its ignore list."""
    required: list[Json] = []
    optional: list[Json] = []
    skips: list[Json] = []
    for owner in harvest.ev.classes.mro(cls):
        if not isinstance(owner, ClassRef) or owner.key == _BASE:
            continue
        for method in harvest.ev.classes.methods(owner):
            scope = harvest.scope_of(method, owner.scope, owner)
            for statement, _ in statements(method.body):
                for node in own_nodes(statement):
                    if not isinstance(node, ast.Call):
                        continue
                    name = called_name(node)
                    if name in ("get_from_keys", "get_from_keys_or") and len(node.args) >= 2:
                        keys = to_json(harvest.ev.safe(node.args[1], scope))
                        target = required if name == "get_from_keys" else optional
                        if keys not in target:
                            target.append(keys)
                    elif name.startswith("is_layer_skipped") or name == "should_ignore_layer":
                        modes = {
                            mode: to_json(harvest.ev.safe(value, scope))
                            for mode in _SKIP_MODES
                            if (value := keyword(node, mode)) is not None
                        }
                        row = {"in": method.name, "function": name, **modes}
                        if row not in skips:
                            skips.append(row)
    parts = (("keys_required", required), ("keys_optional", optional), ("skip_calls", skips))
    return {key: rows for key, rows in parts if rows}


def _platform_lists(ev: Evaluator) -> dict[str, Json]:
    """Platform → the methods it allows; a platform without a list allows all."""
    out: dict[str, Json] = {}
    for platform in _PLATFORM_MODULES:
        module = ev.module(f"vllm.platforms.{platform}")
        if module is None:
            continue
        for name, binding in module.namespace.items():
            cls = ev.names.force(binding, module.scope, name) if binding.kind == "class" else None
            if isinstance(cls, ClassRef):
                body = ev.classes.body(cls)
                allowed = body.bindings.get("supported_quantization")
                if allowed is not None:
                    out[platform] = to_json(ev.names.force(allowed, body, name))
    return out


def _schemes(harvest: Harvest, package: str) -> dict[str, Json]:
    """Scheme class → its minimum capability; base classes, which have none, are left out."""
    out: dict[str, Json] = {}
    for name in harvest.ev.tree.modules_in(package):
        module = harvest.ev.module(f"{package}.{name}")
        for symbol, binding in module.namespace.items() if module else ():
            if binding.kind != "class" or module is None:
                continue
            cls = harvest.ev.names.force(binding, module.scope, symbol)
            capability = returned(harvest, cls, "get_min_capability")
            if capability not in (None, {"abstract": True}):
                out[symbol] = capability
    return out
