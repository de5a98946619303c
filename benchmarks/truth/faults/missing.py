"""Tensors that are missing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.truth.faults.edits import FINAL_NORM, Faults, drop, scale

if TYPE_CHECKING:
    from benchmarks.truth.methods import Case

FAULTS = Faults()


@FAULTS.add
def scale_missing(case: Case, module: str) -> bool:
    del case.tensors[scale(case, module)]
    return True


@FAULTS.add
def scales_missing_everywhere(case: Case, module: str) -> bool:
    return drop(case, r".*\.(scales|weight_scale|weight_scale_inv)")


@FAULTS.add
def weight_missing(case: Case, module: str) -> bool:
    leaf = next(n for n in ("qweight", "weight_packed", "weight") if n in case.leaves(module))
    del case.tensors[f"{module}.{leaf}"]
    return True


@FAULTS.add
def zero_points_missing(case: Case, module: str) -> bool:
    return drop(case, rf"{re.escape(module)}\.(qzeros|weight_zero_point)")


@FAULTS.add
def second_scale_missing(case: Case, module: str) -> bool:
    return drop(case, rf"{re.escape(module)}\.(weight_global_scale|weight_scale_2)")


@FAULTS.add
def input_scale_missing(case: Case, module: str) -> bool:
    return drop(case, rf"{re.escape(module)}\.(input_global_scale|input_scale)")


@FAULTS.add
def group_index_missing(case: Case, module: str) -> bool:
    return drop(case, rf"{re.escape(module)}\.g_idx")


@FAULTS.add
def shape_tensor_missing(case: Case, module: str) -> bool:
    return drop(case, rf"{re.escape(module)}\.weight_shape")


@FAULTS.add
def module_missing(case: Case, module: str) -> bool:
    return drop(case, rf"{re.escape(module)}\..*")


@FAULTS.add
def last_layer_missing(case: Case, module: str) -> bool:
    last = case.family.config["num_hidden_layers"] - 1
    return drop(case, rf"\w+\.layers\.{last}\..*")


@FAULTS.add
def norm_missing(case: Case, module: str) -> bool:
    return drop(case, r"model\.layers\.0\.post_attention_layernorm\.weight")


@FAULTS.add
def final_norm_missing(case: Case, module: str) -> bool:
    return drop(case, FINAL_NORM)


@FAULTS.add
def embedding_missing(case: Case, module: str) -> bool:
    return drop(case, r"\w+\.embed\w*\.weight")


@FAULTS.add
def head_missing(case: Case, module: str) -> bool:
    return drop(case, r"lm_head\.weight")


@FAULTS.add
def expert_missing(case: Case, module: str) -> bool:
    return drop(case, r"model\.layers\.1\..*\.experts\.2\..*")


@FAULTS.add
def router_missing(case: Case, module: str) -> bool:
    return bool(case.family.routers) and drop(case, f"{next(iter(case.family.routers))}.*")


@FAULTS.add
def bias_missing(case: Case, module: str) -> bool:
    return drop(case, rf"{re.escape(module)}\.bias")
