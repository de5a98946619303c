"""Edits of config.json, proposed only where the edited model is shown to be cured.

A rule knows which value the tensors show. Whether writing it into the config helps depends on
every other module that the same key governs, so the edit is tried: the declaration is read again
and every module compared again, all in memory.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.model import ConfigFile
from quantgate.model import Model
from quantgate.quantization.awq import AwqDeclaration
from quantgate.quantization.bitsandbytes import BitsAndBytesDeclaration
from quantgate.quantization.compressed_tensors import CompressedTensorsDeclaration
from quantgate.quantization.difference import Kind
from quantgate.quantization.fbgemm import FbgemmDeclaration
from quantgate.quantization.fp8 import Fp8Declaration
from quantgate.quantization.modelopt import ModelOptDeclaration
from quantgate.quantization.quark import QuarkDeclaration
from quantgate.quantization.scheme import Layout
from quantgate.quantization.torchao import TorchAoDeclaration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from quantgate.quantization.declaration import Declaration
    from quantgate.quantization.difference import Difference
    from quantgate.quantization.scheme import Scheme

Patch = tuple[dict[str, Any], ...]
MAX_IGNORED = 32  # names; a longer list wants a pattern, which only a person can choose
# The key's name here, and the names under which a block may hold it, in vLLM's order.
_ALGORITHMS = {
    str(Layout.FP8): "FP8",
    str(Layout.MODELOPT_NVFP4): "NVFP4",
    str(Layout.MXFP8): "MXFP8",
}
_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "bits": ("w_bit", "bits"),
    "group_size": ("q_group_size", "group_size"),
    "block_structure": ("weight_block_size",),
}


def scheme_patch(
    model: Model, kind: Kind, values: Callable[[Difference], Mapping[str, Any]]
) -> Patch:
    """Write what the tensors show at the keys that give the differing modules their scheme.

    Args:
        model: The model to repair.
        kind: The differences to repair.
        values: Difference → keys (`bits`, `group_size`, `symmetric`, `strategy`) and their values.

    Returns:
        The operations, or none where modules of one scheme show different values, or where the
        edit would not remove every difference of this kind.
    """
    declaration = model.declaration
    wanted: dict[Scheme, dict[str, Any]] = {}
    for module, difference in model.differing(kind):
        scheme = model.schemes.get(module)
        found = dict(values(difference))
        if scheme is None or not found or wanted.setdefault(scheme, found) != found:
            return ()
    if declaration is None or not wanted:
        return ()
    patch: list[dict[str, Any]] = []
    if isinstance(declaration, CompressedTensorsDeclaration):
        for group in declaration.groups:
            keys = wanted.get(group.scheme, {}) if group.scheme is not None else {}
            for key, value in keys.items():
                name = "num_bits" if key == "bits" else key
                patch += declaration.patch(f"config_groups.{group.name}.weights.{name}", value)
    elif len(wanted) == 1:
        for key, value in next(iter(wanted.values())).items():
            patch += declaration.patch(_spelling(declaration, key), value)
    return cured(model, patch, kind)


def _spelling(declaration: Declaration, key: str) -> str:
    names = _SPELLINGS.get(key, (key,))
    return next((n for n in names if n in declaration.raw), names[-1])


def cured(model: Model, patch: Iterable[dict[str, Any]], kind: Kind) -> Patch:
    """The patch if it removes every difference of this kind and brings nothing new, else none.

    New are differences in number, problems of the declaration, layers whose shards disagree and a
    declaration that no longer reaches any layer.
    """
    operations = tuple(patch)
    if not operations or model.declaration is None:
        return ()
    after = patched(model, operations)
    if after is None or after.declaration is None or after.reaches_nothing:
        return ()
    problems = {(p.kind, p.key) for p in model.declaration.problems}
    if any((p.kind, p.key) not in problems for p in after.declaration.problems):
        return ()
    before_count, after_count = (_counts(m) for m in (model, after))
    better = kind not in after.differences and after_count[0] < before_count[0]
    return operations if better and after_count[1] <= before_count[1] else ()


def _counts(model: Model) -> tuple[int, int]:
    differences = sum(len(pairs) for pairs in model.differences.values())
    refused = sum(bool(d.disagree) or d.unreadable for d in model.decisions.values())
    return differences, refused


def patched(model: Model, operations: Patch) -> Model | None:
    """The model with an edited config.json, None where an operation does not apply."""
    config = edited(model.checkpoint.config, operations)
    if config is None:
        return None
    configs = {**model.checkpoint.configs, "config.json": ConfigFile("config.json", config)}
    return Model(replace(model.checkpoint, configs=configs), model.target)


def edited(value: Mapping[str, Any], operations: Iterable[Mapping[str, Any]]) -> Any | None:
    """A copy of a JSON object after RFC 6902 operations, None where one does not apply."""
    result = copy.deepcopy(dict(value))
    applied = all(_apply(result, operation) for operation in operations)
    return result if applied else None


def _apply(config: dict[str, Any], operation: Mapping[str, Any]) -> bool:
    """Carry out one add, replace or remove of RFC 6902 in place; whether that was possible."""
    steps = [s.replace("~1", "/").replace("~0", "~") for s in operation["path"].split("/")[1:]]
    node: Any = config
    for step in steps[:-1]:
        node = node.get(step) if isinstance(node, dict) else None
    last, value = steps[-1], copy.deepcopy(operation.get("value"))
    match node, operation["op"]:
        case list(), "add" if last == "-":
            node.append(value)
        case dict(), "add":
            node[last] = value
        case dict(), "replace" if last in node:
            node[last] = value
        case dict(), "remove" if last in node:
            del node[last]
        case _:
            return False
    return True


def dynamic_inputs_patch(model: Model) -> Patch:
    """Declare the inputs of every group that has static ones dynamic."""
    declaration = model.declaration
    if declaration is None or Kind.MISSING not in model.differences:
        return ()
    if not isinstance(declaration, CompressedTensorsDeclaration):
        return cured(model, declaration.patch("activation_scheme", "dynamic"), Kind.MISSING)
    patch: list[dict[str, Any]] = []
    for group in declaration.groups:
        inputs = group.scheme.activations if group.scheme is not None else None
        if inputs is not None and not inputs.dynamic:
            key = f"config_groups.{group.name}.input_activations"
            patch += declaration.patch(f"{key}.dynamic", value=True)
            patch += declaration.patch(f"{key}.strategy", "token")
    return cured(model, patch, Kind.MISSING)


def skip_list_key(declaration: Declaration) -> str:
    """The key of the list that names what stays dense, empty where the method has none."""
    match declaration:
        case CompressedTensorsDeclaration():
            return "ignore"
        case AwqDeclaration():
            return "modules_to_not_convert"
        case BitsAndBytesDeclaration():
            return "llm_int8_skip_modules"
        case Fp8Declaration():
            return declaration.ignored_key
        case ModelOptDeclaration():
            return declaration.excluded_key
        case FbgemmDeclaration():
            return "modules_to_not_convert"
        case QuarkDeclaration():
            return "exclude"
        case TorchAoDeclaration():
            return "modules_to_not_convert"
    return ""


def ignore_patch(model: Model) -> Patch:
    """Add every layer that is declared quantized and stored dense to the ignore list, by name."""
    declaration = model.declaration
    names = [module for module, _ in model.differing(Kind.DENSE)]
    if declaration is None or not 0 < len(names) <= MAX_IGNORED:
        return ()
    key = skip_list_key(declaration)
    if not key:
        return ()
    if not isinstance(declaration.value(key), list):
        return cured(model, declaration.patch(key, names), Kind.DENSE)
    appended = declaration.patch(key, None)
    patch = [{"op": "add", "path": f"{op['path']}/-", "value": n} for op in appended for n in names]
    return cured(model, patch, Kind.DENSE)


def removal_patch(model: Model) -> Patch:
    """Remove the quantization block."""
    declaration = model.declaration
    if declaration is None or declaration.file != "config.json":
        return ()
    return ({"op": "remove", "path": declaration.path},)


def layout_patch(model: Model) -> Patch:
    """Declare the format, or else the method, that the stored tensors have."""
    declaration = model.declaration
    stored = {difference.found for _, difference in model.differing(Kind.LAYOUT)}
    if declaration is None or len(stored) != 1:
        return ()
    if isinstance(declaration, CompressedTensorsDeclaration):
        layout = stored.pop()
        edits: list[dict[str, Any]] = []
        for group in declaration.groups:
            block = declaration.raw["config_groups"][group.name]
            if isinstance(block.get("format"), str):
                edits += declaration.patch(f"config_groups.{group.name}.format", layout)
        if isinstance(declaration.raw.get("format"), str):
            edits += declaration.patch("format", layout)
        return cured(model, edits, Kind.LAYOUT)
    if isinstance(declaration, ModelOptDeclaration):
        algorithm = _ALGORITHMS.get(next(iter(stored)))
        key = "quantization.quant_algo" if "quantization" in declaration.raw else "quant_algo"
        edit = declaration.patch(key, algorithm) if algorithm and not declaration.mixed else ()
        return cured(model, edit, Kind.LAYOUT)
    if isinstance(declaration, BitsAndBytesDeclaration):
        eight = next(iter(stored)) == Layout.BNB_INT8
        flags = declaration.patch("load_in_8bit", eight) + declaration.patch(
            "load_in_4bit", not eight
        )
        return cured(model, flags, Kind.LAYOUT)
    if isinstance(declaration.raw.get("config_groups"), dict):
        return cured(model, declaration.patch("quant_method", "compressed-tensors"), Kind.LAYOUT)
    return ()
