"""Independent witnesses of a module's true size [N, K], so that a wrong `bits` cannot hide.

Best first: what config.json implies for a known architecture, then what the neighbours show (the
width of the embedding and of the norms is never quantized, and gate, up and down share theirs).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from quantgate.quantization.config_sizes import config_sizes
from quantgate.quantization.observed import observe
from quantgate.quantization.scheme import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from quantgate.vllm.built import Built

CONFIG, NEIGHBOURS = "config.json", "neighbouring tensors"
_OTHER_TOWERS = ("vision", "visual", "audio", "image", "speech", "projector")


def witness_sizes(
    config: Mapping[str, Any],
    modules: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]],
    built: Built | None = None,
) -> Callable[[str], Sizes]:
    """A function from a module name to what is known of its size.

    Args:
        config: The content of config.json.
        modules: Module name → leaf → (dtype, shape).
        built: What vLLM builds for the architecture, if that is known.
    """
    declared = config_sizes(config)
    hidden = _hidden_size(modules)
    wide = _hidden_by_position(hidden)

    @cache
    def sizes(module: str) -> Sizes:
        if any(t in module for t in _OTHER_TOWERS):
            return Sizes()
        leaf = module.rpartition(".")[2]
        given = built.size(module) if built else None
        if declared and (given is None or None in given):
            n, k = declared.of(module) or (None, None)
            given = (given[0] or n, given[1] or k) if given else (n, k)
        found = Sizes(*given, CONFIG) if given else None
        n, k = wide.get(leaf, (None, None))
        if leaf in {"down_proj", "w2"}:
            k = _width_of_sibling(module, modules, ("up_proj", "gate_proj", "w3", "w1"))
        if found is None:
            return Sizes(n, k, NEIGHBOURS) if n or k else Sizes()
        if leaf == "o_proj" and found.k and sizes(f"{module[:-6]}q_proj").n == found.k:
            k = _width_of_sibling(module, modules, ("q_proj",))
        disputed = any(a and b and a != b for a, b in ((n, found.n), (k, found.k)))
        return replace(found, disputed=True) if disputed else found

    return sizes


def _hidden_by_position(hidden: int | None) -> dict[str, tuple[int | None, int | None]]:
    takes = ("q_proj", "k_proj", "v_proj", "qkv_proj", "gate_proj", "up_proj", "gate_up_proj")
    gives = ("o_proj", "down_proj")
    table: dict[str, tuple[int | None, int | None]] = dict.fromkeys(takes, (None, hidden))
    table.update(dict.fromkeys(gives, (hidden, None)))
    table.update({"w1": (None, hidden), "w3": (None, hidden), "w2": (hidden, None)})
    return table


def _hidden_size(
    modules: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]],
) -> int | None:
    """Width of the residual stream, from the embedding or, without it, the norms."""
    widths: set[int] = set()
    for name, leaves in modules.items():
        if any(t in name for t in _OTHER_TOWERS):
            continue
        weight = leaves.get("weight")
        if weight is None:
            continue
        if name.endswith("embed_tokens") and len(weight[1]) == 2:
            return weight[1][1]
        if name.endswith("input_layernorm") and len(weight[1]) == 1:
            widths.add(weight[1][0])
    return widths.pop() if len(widths) == 1 else None


def _width_of_sibling(
    module: str,
    modules: Mapping[str, Mapping[str, tuple[str, tuple[int, ...]]]],
    siblings: Iterable[str],
) -> int | None:
    """K of a down or output projection: the N of a module that feeds it."""
    parent = module.rpartition(".")[0]
    for sibling in siblings:
        leaves = modules.get(f"{parent}.{sibling}")
        width = observe(leaves).n if leaves else None
        if width is not None:
            return width
    return None
