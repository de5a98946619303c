"""Which module a tensor belongs to, and what it is called there."""

from __future__ import annotations

# What bitsandbytes and quanto hang below the weight itself (`q_proj.weight.absmax`).
_OF_THE_WEIGHT = frozenset(
    {
        *("absmax", "quant_map", "nested_absmax", "nested_quant_map", "quant_state"),
        *("_data", "_scale", "_shift"),
    }
)


def split_name(name: str) -> tuple[str, str]:
    """(module, leaf) of a tensor: `a.q_proj.weight.absmax` → (`a.q_proj`, `weight.absmax`)."""
    module, _, leaf = name.rpartition(".")
    if ".weight." in name:
        head, _, tail = name.rpartition(".weight.")
        if tail.partition(".")[0] in _OF_THE_WEIGHT:
            return head, f"weight.{tail}"
    return module, leaf
