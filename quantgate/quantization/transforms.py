"""Rotations that a compressed-tensors block declares beside its groups: `transform_config`.

Source: TransformConfig, TransformScheme and TransformArgs of compressed-tensors 0.11.0 to 0.18.0,
which are alike; vLLM 0.10.2 to 0.33.0, compressed_tensors/transform/linear.py and module.py.

A transform at `weight_input` or `weight_output` was multiplied into the weights by the exporter
and leaves nothing to load. One at `input` or `output` runs at every call: vLLM gives each of its
Linear layers a module `<group>_<location>` with a square `weight`, shared by all layers of equal
size, so that the file need hold it once. At `k_cache` and `q_attn` vLLM has none: it ignores them
for an attention and raises for a Linear layer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Problem, ProblemKind, Reader, type_name

if TYPE_CHECKING:
    from collections.abc import Mapping

ONLINE = frozenset({"input", "output"})
ATTENTION = frozenset({"k_cache", "q_attn"})
OFFLINE = frozenset({"weight_input", "weight_output"})
KEY = "transform_config"
_GROUP_KEYS = frozenset({"type", "apply", "randomize", "requires_grad", "head_dim", "precision"})
_PLACE_KEYS = frozenset({"targets", "location", "inverse", "ignore"})
_EXTRA = "ValidationError: Extra inputs are not permitted"
_LINEAR = frozenset({"weight", "weight_packed"})
_WEIGHT_MODULE = re.compile(r".+_(?:input|output|k_cache|q_attn)")


@dataclass(frozen=True, slots=True)
class Transform:
    """One place where one group of `transform_config` is applied.

    `type` is `hadamard`, `random-hadamard` or `random-matrix`.
    """

    group: str
    type: str
    location: str
    targets: tuple[str, ...]
    ignore: tuple[str, ...]

    @property
    def weight_module(self) -> str:
        """Last name of the module that holds its weight."""
        return f"{self.group}_{self.location}"


def read_transforms(
    raw: Mapping[str, Any],
) -> tuple[tuple[Transform, ...], tuple[Problem, ...]]:
    """The transforms of a block, and what the library's validator refuses."""
    config = raw.get(KEY)
    if not config:
        return (), ()
    if not isinstance(config, dict) or not isinstance(config.get("config_groups"), dict):
        found = type_name(config)
        error = "ValidationError for TransformConfig"
        return (), (Problem(ProblemKind.VALUE, KEY, "an object with config_groups", found, error),)
    found_transforms: list[Transform] = []
    problems: list[Problem] = []
    for name, group in config["config_groups"].items():
        reader = Reader(group if isinstance(group, dict) else {}, f"{KEY}.config_groups.{name}.")
        found_transforms += _group(str(name), group, reader)
        problems += reader.problems
    return tuple(found_transforms), tuple(problems)


def _group(name: str, group: object, reader: Reader) -> list[Transform]:
    if not isinstance(group, dict) or not isinstance(group.get("type"), str):
        error = "ValidationError for TransformScheme"
        reader.note(ProblemKind.VALUE, "type", "the name of a kind of transform", error)
        return []
    for key in sorted(set(map(str, group)) - _GROUP_KEYS):
        reader.note(ProblemKind.VALUE, key, "absent", _EXTRA)
    places = group.get("apply", [])
    if not isinstance(places, list):
        error = "ValidationError for TransformScheme"
        reader.note(ProblemKind.VALUE, "apply", "a list of objects", error)
        return []
    transforms = []
    for place in places:
        location = place.get("location") if isinstance(place, dict) else None
        if not isinstance(location, str) or location not in ONLINE | ATTENTION | OFFLINE:
            expected = f"a location: {', '.join(sorted(ONLINE | ATTENTION | OFFLINE))}"
            error = "ValidationError for TransformArgs"
            reader.add(ProblemKind.VALUE, "apply", expected, str(location)[:60], error)
            continue
        for key in sorted(set(map(str, place)) - _PLACE_KEYS):
            reader.add(ProblemKind.VALUE, "apply", "absent", key, _EXTRA)
        targets, ignore = _names(place.get("targets")), _names(place.get("ignore"))
        transforms.append(Transform(name, group["type"], location, targets, ignore))
    return transforms


def _names(value: object) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(v for v in values if isinstance(v, str))


def transform_weights(
    modules: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]], *, declared: bool
) -> frozenset[str]:
    """The modules that hold the weight of a transform, told by name and a lone square weight.

    Args:
        modules: Module → leaf → (dtype, shape).
        declared: Whether the block has a `transform_config`; an attention's only count then.
    """
    found = set()
    for module, leaves in modules.items():
        parent, _, leaf = module.rpartition(".")
        if leaves.keys() != {"weight"} or not _WEIGHT_MODULE.fullmatch(leaf):
            continue
        shape = leaves["weight"][1]
        beside = not _LINEAR.isdisjoint(modules.get(parent, ()))
        owned = beside or (declared and parent.endswith("attn"))
        if owned and len(shape) == 2 and shape[0] == shape[1]:
            found.add(module)
    return frozenset(found)
