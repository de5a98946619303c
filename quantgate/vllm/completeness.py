"""Which modules that vLLM builds have no tensor in the files.

vLLM asks only of unquantized models whether everything came (model_loader/default_loader.py
track_weights_loading, 0.32.0), so whatever is missing keeps what was in memory.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from quantgate.vllm.built import Built
    from quantgate.vllm.structure import Decoder

_LAYER = re.compile(r"^(?:.*\.)?(?:layers|h|blocks)\.(\d+)\.(.+)$")
_EXPERT = re.compile(r"(?<=experts\.)\d+(?=\.)")
# Below this share of what vLLM builds, the files bear names that the facts do not know.
_FIT = 0.75


def lacking(
    built: Built, decoder: Decoder, modules: Mapping[str, Mapping[str, object]]
) -> Mapping[int, list[str]]:
    """Layer → modules that vLLM builds there and that the files lack, in the files' names."""
    root = f"{decoder.root}."
    stored: dict[int, set[str]] = defaultdict(set)
    spelled: dict[str, str] = {}
    for module, leaves in modules.items():
        if not module.startswith(root) or leaves.keys() == {"bias"}:
            continue
        name = built.naming.module(module)
        match = _LAYER.match(name) if name else None
        if match is None:
            continue
        path = _EXPERT.sub("*", match[2])
        stored[int(match[1])].add(path)
        spelled.setdefault(path, module.removeprefix(root).partition(".")[2])
    everywhere = set().union(*stored.values()) if stored else set()
    kinds = {index: _kind(paths) for index, paths in stored.items()}
    wanted = [(p, w) for p, w in built.wanted() if w == "every" or w in kinds.values()]
    alternatives = {path: _spellings(path, built.naming.fused) for path, _ in wanted}
    fitting = [path for path, _ in wanted if alternatives[path] & everywhere]
    if not wanted or len(fitting) < _FIT * len(wanted):
        return {}
    gaps: dict[int, list[str]] = {}
    for index in range(decoder.declared or 0):
        here = stored.get(index)
        if here is None:
            continue  # the whole layer is missing, which is a fault of its own
        missing = [
            spelled.get(path, path)
            for path, where in wanted
            if where in {"every", kinds[index]} and not alternatives[path] & here
        ]
        if missing:
            gaps[index] = missing
    return gaps


def _kind(paths: Collection[str]) -> str:
    """Whether a layer of these modules is one of experts."""
    return "sparse" if any(".experts" in f".{path}" for path in paths) else "dense"


def _spellings(path: str, fused: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """A module's path, and those of the fused modules that it may be stored in."""
    parent, dot, leaf = path.rpartition(".")
    return frozenset(
        {path, *(f"{parent}{dot}{name}" for name, shards in fused.items() if leaf in shards)}
    )
