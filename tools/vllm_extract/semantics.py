"""What the facts mean: fingerprints of the functions that apply them, and a few of their parts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.calls import UTILS
from tools.vllm_extract.reach import MODEL_PACKAGES
from tools.vllm_extract.syntax import CONDITION_LIMIT, fingerprint, own_nodes
from tools.vllm_extract.values import (
    ClassRef,
    FunctionRef,
    Json,
    RaisedError,
    UndecidedError,
    Unknown,
    text,
    to_json,
)

if TYPE_CHECKING:
    from tools.vllm_extract.evaluate import Evaluator

_ROOT: Final = "vllm.model_executor"
_QUANT: Final = f"{_ROOT}.layers.quantization"
_COMPRESSED: Final = f"{_QUANT}.compressed_tensors.utils"
# (name the facts use, module, function or class); a release has those that its modules have.
FUNCTIONS: Final = (
    ("WeightsMapper", UTILS, "WeightsMapper"),
    ("AutoWeightsLoader", UTILS, "AutoWeightsLoader"),
    ("SupportsQuant", f"{_ROOT}.models.interfaces", "SupportsQuant"),
    ("configure_quant_config", f"{_ROOT}.model_loader.utils", "configure_quant_config"),
    ("is_layer_skipped", f"{_QUANT}.utils.quant_utils", "is_layer_skipped"),
    ("should_ignore_layer", _COMPRESSED, "should_ignore_layer"),
    ("find_matched_target", _COMPRESSED, "find_matched_target"),
    ("check_equal_or_regex_match", _COMPRESSED, "check_equal_or_regex_match"),
    ("_is_equal_or_regex_match", _COMPRESSED, "_is_equal_or_regex_match"),
    ("_match_fused_layer", _COMPRESSED, "_match_fused_layer"),
    ("_find_first_match", _COMPRESSED, "_find_first_match"),
    ("find_matching_patterns", f"{_QUANT}.utils.config_utils", "find_matching_patterns"),
    ("is_equal_or_regex_match", f"{_QUANT}.utils.config_utils", "is_equal_or_regex_match"),
    ("QuantizationConfig", f"{_QUANT}.base_config", "QuantizationConfig"),
    ("is_layer_skipped_awq", f"{_QUANT}.awq", "is_layer_skipped_awq"),
    ("is_layer_skipped_bnb", f"{_QUANT}.bitsandbytes", "is_layer_skipped_bnb"),
    ("is_layer_skipped_quant", f"{_QUANT}.moe_wna16", "is_layer_skipped_quant"),
    ("get_dynamic_override", f"{_QUANT}.utils.gptq_utils", "get_dynamic_override"),
    ("is_layer_gptq_quantized", f"{_QUANT}.utils.gptq_utils", "is_layer_gptq_quantized"),
    ("quark.should_ignore_layer", f"{_QUANT}.quark.utils", "should_ignore_layer"),
    (
        "maybe_remap_kv_scale_name",
        f"{_ROOT}.model_loader.weight_utils",
        "maybe_remap_kv_scale_name",
    ),
)


def semantics(ev: Evaluator) -> Json:
    """Fingerprints, the order in which a mapper's tables apply, and the loaders' own mappers."""
    base_mappers = {
        method: mapper
        for method in ("get_cache_scale_mapper", "get_checkpoint_weight_mapper")
        if (mapper := _base_mapper(ev, method)) is not None
    }
    configure = _node(ev, f"{_ROOT}.model_loader.utils", "configure_quant_config")
    source = ast.unparse(configure) if configure else ""
    applies = "apply_vllm_mapper" in source
    return {
        "functions": {
            name: fingerprint(node)
            for name, module, symbol in FUNCTIONS
            if (node := _node(ev, module, symbol)) is not None
        },
        "mapper_order": _mapper_order(ev),
        "auto_loader": _auto_loader(ev),
        "base_mappers": base_mappers,
        "tied_by_identity": _node(ev, UTILS, "_get_tied_embedding_params") is not None,
        "config_mapper": "rename"
        if "get_rename_mapper" in source
        else "unstacked"
        if "get_unstacked_mapper" in source
        else "whole"
        if applies
        else "none",
    }


def _node(ev: Evaluator, module_name: str, symbol: str) -> ast.AST | None:
    module = ev.module(module_name)
    binding = module.namespace.get(symbol) if module else None
    return binding.node if binding and binding.kind in ("func", "class") else None


def _mapper_order(ev: Evaluator) -> list[str]:
    """The tables in the order in which `WeightsMapper` applies them to a name."""
    node = _node(ev, UTILS, "WeightsMapper")
    longest: list[str] = []
    for method in node.body if isinstance(node, ast.ClassDef) else []:
        if isinstance(method, ast.FunctionDef) and "map_name" in method.name:
            found = [
                inner.attr.removeprefix("orig_to_new_")
                for loop in ast.walk(method)
                if isinstance(loop, ast.For)
                for inner in ast.walk(loop.iter)
                if isinstance(inner, ast.Attribute) and inner.attr.startswith("orig_to_new_")
            ]
            longest = max(longest, found, key=len)
    return longest


def _auto_loader(ev: Evaluator) -> Json:
    """The class constants of `AutoWeightsLoader`: names that every model drops."""
    module = ev.module(UTILS)
    node = _node(ev, UTILS, "AutoWeightsLoader")
    out: dict[str, Json] = {}
    for statement in node.body if isinstance(node, ast.ClassDef) and module else []:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if module:
                out[name.lower()] = to_json(ev.safe(value, module.scope))
    return out


def _base_mapper(ev: Evaluator, method: str) -> Json:
    """A mapper that `QuantizationConfig` gives every method, None where a release has none."""
    module = ev.module(f"{_QUANT}.base_config")
    base = ev.names.attribute(module, "QuantizationConfig") if module else None
    found = ev.classes.attribute(base, method) if isinstance(base, ClassRef) else None
    if found is None or not isinstance(found.value, FunctionRef):
        return None
    try:
        return to_json(ev.functions.call(found.value, [], {}))
    except (UndecidedError, RaisedError):
        return to_json(Unknown.of(found.value.node))


def flag_sites(ev: Evaluator, words: frozenset[str]) -> list[dict[str, str]]:
    """Every statement of the model packages that reads one of these names."""
    out: list[dict[str, str]] = []

    def scan(body: list[ast.stmt], module: str, path: str) -> None:
        for statement in body:
            if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                scan(statement.body, module, f"{path}.{statement.name}".lstrip("."))
                continue
            if any(_names(node) & words for node in own_nodes(statement)):
                head = f"if {ast.unparse(statement.test)}" if isinstance(statement, ast.If) else ""
                code = head or text(statement, CONDITION_LIMIT)
                out.append({"module": module, "in": path, "code": code})
            for part in ("body", "orelse", "finalbody"):
                scan(getattr(statement, part, []), module, path)

    for package in MODEL_PACKAGES:
        for module, path in ev.tree.files_below(package):
            if any(word in path.read_text(encoding="utf-8") for word in words):
                scan(ev.tree.parse(path).body, module, "")
    return out


def _names(node: ast.AST) -> set[str]:
    found = {getattr(node, "attr", None), getattr(node, "id", None), getattr(node, "value", None)}
    return {name for name in found if isinstance(name, str)}
