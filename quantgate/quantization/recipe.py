"""recipe.yaml, the record of how llm-compressor made a model, and what it says of the schemes.

vLLM never reads it. A recipe is a tree of stages and modifiers whose shape changed with the
releases of llm-compressor; wherever a key ends in `Modifier`, its value is taken for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Modifiers that give layers a scheme; all others (SmoothQuant, SpinQuant, pruning) change values.
_QUANTIZING = frozenset(
    {"QuantizationModifier", "GPTQModifier", "AWQModifier", "AutoRoundModifier"}
)
_MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Weights:
    """Bits, `int` or `float`, and the values per scale where there are groups."""

    bits: int
    type: str
    group_size: int | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a recipe says.

    Attributes:
        weights: Every way in which weights are quantized.
        ignore: Names and patterns that every quantizing modifier leaves alone.
    """

    weights: frozenset[Weights]
    ignore: tuple[str, ...]


# Bits, type and group size of the weights of each preset (compressed-tensors 0.17.0,
# quantization/quant_scheme.py PRESET_SCHEMES); no group size where there are no groups, or where
# it changed with the releases (W8A16).
_PRESETS: Mapping[str, Weights] = {
    "W8A16": Weights(8, "int"),
    "W4A16": Weights(4, "int", 128),
    "W4A16_ASYM": Weights(4, "int", 128),
    "W8A8": Weights(8, "int"),
    "INT8": Weights(8, "int"),
    "W4A8": Weights(4, "int", 128),
    "W4AFP8": Weights(4, "int", 128),
    "FP8": Weights(8, "float"),
    "FP8_DYNAMIC": Weights(8, "float"),
    "FP8_BLOCK": Weights(8, "float"),
    "NVFP4": Weights(4, "float", 16),
    "NVFP4A16": Weights(4, "float", 16),
    "MXFP4": Weights(4, "float", 32),
    "MXFP4A16": Weights(4, "float", 32),
    "MXFP8": Weights(8, "float", 32),
    "MXFP8A16": Weights(8, "float", 32),
}


def read_recipe(document: object) -> Recipe | None:
    """What a recipe says, None where it quantizes nothing or says it in a way not known here."""
    weights: set[Weights] = set()
    ignores: list[tuple[str, ...]] = []
    for modifier in _modifiers(document):
        found = _weights_of(modifier)
        if found is None:
            return None
        weights |= found
        if found:
            ignores.append(tuple(_texts(modifier.get("ignore"))))
    if not weights:
        return None
    common = [e for e in ignores[0] if all(e in other for other in ignores[1:])]
    return Recipe(frozenset(weights), tuple(dict.fromkeys(common)))


def weights_of_block(raw: Mapping[str, Any]) -> frozenset[Weights]:
    """Every way in which a compressed-tensors block declares weights."""
    groups = raw.get("config_groups")
    return frozenset(_group_weights(groups) or ()) if isinstance(groups, dict) else frozenset()


def _modifiers(document: object) -> Iterator[Mapping[str, Any]]:
    todo: list[tuple[object, int]] = [(document, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > _MAX_DEPTH:
            continue
        if isinstance(node, list):
            todo.extend((item, depth + 1) for item in node)
        elif isinstance(node, dict):
            for key, value in node.items():
                if key in _QUANTIZING and isinstance(value, dict):
                    yield value
                else:
                    todo.append((value, depth + 1))


def _weights_of(modifier: Mapping[str, Any]) -> set[Weights] | None:
    """The schemes of one modifier, None if one of them is not understood."""
    groups, scheme = modifier.get("config_groups"), modifier.get("scheme")
    if isinstance(groups, dict) and groups:
        return _group_weights(groups)
    # `scheme: W4A16`, or `scheme: {W4A16: [targets]}`
    names = [scheme] if isinstance(scheme, str) else scheme
    if names is None:
        return set()
    if not isinstance(names, list | dict):
        return None
    found: set[Weights] = set()
    for name in names:
        preset = _PRESETS.get(name.upper()) if isinstance(name, str) else None
        if preset is None:
            return None
        found.add(preset)
    return found


def _group_weights(groups: Mapping[str, Any]) -> set[Weights] | None:
    found: set[Weights] = set()
    for group in groups.values():
        weights = group.get("weights") if isinstance(group, dict) else None
        if weights is None:
            continue
        bits = weights.get("num_bits", 8) if isinstance(weights, dict) else None
        if not isinstance(bits, int) or isinstance(bits, bool):
            return None
        kind, size = weights.get("type", "int"), weights.get("group_size")
        if not isinstance(kind, str) or not isinstance(size, int | None):
            return None
        found.add(Weights(bits, kind, size if size and size > 0 else None))
    return found


def _texts(value: object) -> Iterator[str]:
    values = value if isinstance(value, list) else [value]
    yield from (v for v in values if isinstance(v, str))
