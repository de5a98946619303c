"""Side files: JSON as transformers reads it, YAML without its traps, the index.

The value, or a `Defect` that says why there is none; nothing raises. A value consists of what
JSON has, is at most `MAX_DEPTH` deep, and can be printed: its text is UTF-8, its numbers short.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final

import yaml

from quantgate.checkpoint.model import Defect, DefectKind

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_DEPTH: Final = 100
"""Levels of nesting; real configs have fewer than ten. Code that walks a config may recurse."""

MAX_BITS: Final = 1024
"""Bits of an integer, as many as a float can hold; Python refuses to print very long ones."""

MAX_YAML: Final = 256_000
"""Bytes of a YAML file that are parsed: PyYAML takes about a second for so many."""


def parse_json(content: bytes, *, unique: bool = False) -> Any | Defect:
    """A JSON document. Of equal keys the last wins and NaN is a number, as in Python.

    A byte order mark is refused, as by `json.load` on a file that was opened as UTF-8. With
    `unique`, equal keys are refused, of which another reader might take the first.
    """
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=_once if unique else None)
    except UnicodeDecodeError as error:
        return _malformed(f"is not UTF-8 at byte {error.start}")
    except ValueError as error:
        return _malformed(f"is not JSON: {error}")
    except RecursionError:
        return _malformed(f"is nested deeper than {MAX_DEPTH} levels")
    return _plain(value)


def parse_yaml(content: bytes, *, unique: bool = False) -> Any | Defect:
    """A YAML file of one document. A date is text; `unique` as for JSON."""
    if len(content) > MAX_YAML:
        message = f"has {len(content)} bytes, the limit is {MAX_YAML}"
        return Defect(DefectKind.TOO_LARGE, message)
    try:
        loader = _UniqueLoader if unique else _Loader
        value = yaml.load(content.decode("utf-8"), Loader=loader)  # noqa: S506 a SafeLoader
    except UnicodeDecodeError as error:
        return _malformed(f"is not UTF-8 at byte {error.start}")
    except (
        # PyYAML's constructors let slip whatever int(), dict[...] or a failed match raise.
        yaml.YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        return _malformed(f"is not YAML: {' '.join(str(error).split())}")
    return _plain(value)


def parse_index(content: bytes) -> Mapping[str, str] | Defect:
    """The `weight_map` of an index: tensor name → file name."""
    value = parse_json(content)
    if isinstance(value, Defect):
        return value
    if not isinstance(value, dict):
        return _malformed("is not an object")
    weight_map = value.get("weight_map")
    if not isinstance(weight_map, dict):
        return _malformed("has no weight_map, or it is not an object")
    if not all(isinstance(name, str) for name in weight_map.values()):
        return _malformed("has a weight_map with a file name that is not a string")
    # One string for each name, which the headers then share: they are most of a large index.
    return {sys.intern(tensor): sys.intern(file) for tensor, file in weight_map.items()}


class _Loader(yaml.SafeLoader):
    """Refuses aliases: ten lines of them unfold to gigabytes, or to a list that holds itself."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias (*), which is not supported")
        return super().compose_node(parent, index)

    def timestamp_as_text(self, node: yaml.ScalarNode) -> str:
        return str(self.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.timestamp_as_text)


class _UniqueLoader(_Loader):
    """Refuses a mapping with a key twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            raise yaml.YAMLError("a mapping has a key twice")
        return node


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _malformed(message: str) -> Defect:
    return Defect(DefectKind.MALFORMED, message)


def _plain(value: Any) -> Any | Defect:
    """The value itself if it is what the module promises."""
    todo = [(value, 1)]
    while todo:
        item, depth = todo.pop()
        if isinstance(item, str):
            if not item.isascii() and any("\ud800" <= c <= "\udfff" for c in item):
                return _malformed("has half a surrogate pair, not text")
        elif isinstance(item, dict | list):
            if depth > MAX_DEPTH:
                return _malformed(f"is nested deeper than {MAX_DEPTH} levels")
            todo.extend((inner, depth + 1) for inner in item)
            if isinstance(item, dict):
                todo.extend((inner, depth + 1) for inner in item.values())
        elif isinstance(item, int):
            if item.bit_length() > MAX_BITS:
                return _malformed("has a number out of range")
        elif item is not None and not isinstance(item, float):
            return _malformed(f"has a value of the type {type(item).__name__}")
    return value
