"""Sizes and flags of the config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.truth.faults.edits import Fault, Faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.truth.methods import Case

FAULTS = Faults()


def _resize(key: str, change: Callable[[int], int]) -> Fault:
    def fault(case: Case, module: str) -> bool:
        case.config[key] = change(case.config[key])
        return True

    return fault


FAULTS.update(
    {
        "one_layer_more": _resize("num_hidden_layers", lambda n: n + 1),
        "one_layer_less": _resize("num_hidden_layers", lambda n: n - 1),
        "hidden_size_doubled": _resize("hidden_size", lambda n: 2 * n),
        "kv_heads_halved": _resize("num_key_value_heads", lambda n: n // 2),
        "head_size_doubled": _resize("head_dim", lambda n: 2 * n),
        "inner_size_doubled": _resize("intermediate_size", lambda n: 2 * n),
        "vocabulary_smaller": _resize("vocab_size", lambda n: n // 2),
        "vocabulary_larger": _resize("vocab_size", lambda n: n + 512),
    }
)


@FAULTS.add
def tied_flag_flipped(case: Case, module: str) -> bool:
    case.config["tie_word_embeddings"] = not case.config["tie_word_embeddings"]
    return True


@FAULTS.add
def kv_cache_scheme_without_scales(case: Case, module: str) -> bool:
    """Loads with scales of one."""
    if case.block["quant_method"] != "compressed-tensors":
        return False
    case.block["kv_cache_scheme"] = {
        "num_bits": 8,
        "type": "float",
        "strategy": "tensor",
        "dynamic": False,
        "symmetric": True,
    }
    return True
