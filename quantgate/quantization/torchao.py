"""torchao declarations: vLLM 0.33.0, layers/quantization/torchao.py, and torchao 0.18.0.

The block holds a config object of torchao's as JSON (`quant_type: {default: {_type, _data}}`):
one for every Linear, or one per module name. vLLM lets torchao quantize an empty weight by it, and
copies the stored one over; both must be equal in everything but the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration, ProblemKind, Reader, shown, type_name
from quantgate.quantization.torchao_recipe import Recipe, read_recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

_PER_MODULE = frozenset({"ModuleFqnToConfig", "FqnToConfig"})
# Classes that torchao 0.18 has in version 2 only, seen with vLLM 0.32.0. An older torchao, as older
# releases of vLLM are run with, still takes their version 1.
_SECOND_VERSION = frozenset(
    {
        *("Int4WeightOnlyConfig", "Int8WeightOnlyConfig", "Float8WeightOnlyConfig"),
        *("Int8DynamicActivationInt8WeightConfig", "Float8DynamicActivationFloat8WeightConfig"),
        *("IntxWeightOnlyConfig", "Int8DynamicActivationIntxWeightConfig"),
    }
)
_NO_FIRST_VERSION = (0, 32)


@dataclass(frozen=True, kw_only=True)
class TorchAoDeclaration(Declaration):
    """The keys of a torchao block that vLLM reads.

    Attributes:
        recipe: Of every Linear, None for a dense one or where it could not be read.
        by_name: Name or `re:` pattern → recipe, None for a dense module.
        per_module: Whether a module is looked up in `by_name` first.
        skipped: `modules_to_not_convert`, and the names whose config is null.
    """

    recipe: Recipe | None
    by_name: Mapping[str, Recipe | None]
    per_module: bool
    skipped: tuple[str, ...]

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """Every recipe, each once."""
        return tuple(dict.fromkeys(r for r in (self.recipe, *self.by_name.values()) if r))


def parse(raw: Mapping[str, Any], file: str, path: str) -> TorchAoDeclaration:
    """Read a torchao block and note what vLLM or torchao refuses."""
    reader = Reader(raw)
    config = _default(raw, reader)
    by_name: dict[str, Recipe | None] = {}
    recipe = None
    per_module = config is not None and config["_type"] in _PER_MODULE
    if config is not None and per_module:
        data = config["_data"]
        table = data.get("module_fqn_to_config") or data.get("fqn_to_config")
        for name, entry in table.items() if isinstance(table, dict) else ():
            at = f"quant_type.default._data.module_fqn_to_config.{name}"
            by_name[name] = _recipe(entry, at, reader)
        recipe = by_name.pop("_default", None)
    elif config is not None:
        recipe = _recipe(config, "quant_type.default", reader)
    skipped = reader.strings("modules_to_not_convert")
    return TorchAoDeclaration(
        method="torchao",
        file=file,
        path=path,
        raw=raw,
        recipe=recipe,
        by_name=by_name,
        per_module=per_module,
        skipped=skipped + tuple(n for n, r in by_name.items() if r is None),
        problems=tuple(reader.problems),
    )


def _default(raw: Mapping[str, Any], reader: Reader) -> dict[str, Any] | None:
    """The config object, None (and a problem) where there is none."""
    block = raw.get("quant_type")
    if block is None:
        error = "AssertionError: quant_type must be specified"
        reader.note(ProblemKind.MISSING, "quant_type", "quant_type", error)
        return None
    if not isinstance(block, dict) or list(block) != ["default"]:
        error = "Expected only one key 'default' in quant_type dictionary"
        reader.note(ProblemKind.VALUE, "quant_type", "an object with the key default", error)
        return None
    config = block["default"]
    if not isinstance(config, dict):
        error = f"TypeError: Expected dictionary, got {type_name(config)}"
        reader.add(ProblemKind.VALUE, "quant_type.default", "an object", shown(config), error)
        return None
    if not isinstance(config.get("_type"), str) or not isinstance(config.get("_data"), dict):
        error = "Input dictionary missing required '_type' or '_data' fields"
        lacking = next((k for k in ("_type", "_data") if k not in config), "_data")
        found = shown(config[lacking]) if lacking in config else "absent"
        key = f"quant_type.default.{lacking}"
        reader.add(ProblemKind.MISSING, key, "the name and the fields of a config", found, error)
        return None
    return config


def _recipe(config: object, key: str, reader: Reader) -> Recipe | None:
    if not isinstance(config, dict):
        return None
    recipe = read_recipe(config)
    name, version = config.get("_type"), config.get("_version", 1)
    if name in _SECOND_VERSION and version == 1:
        reader.add(
            ProblemKind.VALUE,
            f"{key}._version",
            "2",
            shown(config["_version"]) if "_version" in config else "absent, which means 1",
            f"version 1 of {name} has been removed, please use version 2",
            since=_NO_FIRST_VERSION,
        )
    return recipe
