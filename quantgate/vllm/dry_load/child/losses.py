"""Which casts and which unused tensors are faults. No torch: the rules alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FP8 = ("float8_e4m3fn", "float8_e5m2")
_LAYER = re.compile(r"\.(?:layers|blocks|h)\.(\d+)\.")
# vLLM drops these by design, and nothing is lost at run time.
_DROPPED_BY_DESIGN = re.compile(
    r"rotary_emb\.|rotary_pos_emb|inv_freq|\.weight_shape$|g_idx$|\.qzeros$"
    r"|k_scale$|v_scale$|q_scale$|kv_scale$|\.prob_scale$|^mtp\.|\.mtp\.|masked_bias$"
    r"|_zero_point$|output_scale$|attn\.bias$|\.bias$"
)


def lost(unused: Iterable[str], draft_layers: range) -> list[str]:
    """Tensors of layers that reached no parameter and that the model should have had.

    Args:
        unused: The tensors that reached none.
        draft_layers: Numbers of layers that are for a draft model and not for this one.
    """
    kept = [n for n in unused if not _DROPPED_BY_DESIGN.search(n)]
    return [n for n in kept if (at := _LAYER.search(n)) and int(at[1]) not in draft_layers]


def bad_cast(name: str, source: str, target: str) -> bool:
    """Whether `copy_`, which converts values, cannot have been meant to.

    Args:
        name: Of the checkpoint tensor.
        source: Its type, as torch names it.
        target: The parameter's.
    """
    if name.endswith(("weight_shape", "g_idx")):
        return False
    if "float" in source and "float" in target:
        weight = name.endswith(("weight", "weight_packed"))
        return weight and (source in _FP8) != (target in _FP8)
    return True  # an integer for a float, or an integer of another width
