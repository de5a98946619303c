"""Tensors of other names, or too many."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.truth.faults.edits import Faults, drop, rename, scale
from benchmarks.truth.usual_families import HIDDEN
from tests.support.linears import linear_tensors

if TYPE_CHECKING:
    from benchmarks.truth.methods import Case

FAULTS = Faults()


@FAULTS.add
def prefix_doubled(case: Case, module: str) -> bool:
    return rename(case, lambda n: f"model.{n}")


@FAULTS.add
def prefix_missing(case: Case, module: str) -> bool:
    return rename(case, lambda n: n.removeprefix("model."))


@FAULTS.add
def scale_by_another_name(case: Case, module: str) -> bool:
    name = scale(case, module)
    leaf = name.rsplit(".", 1)[-1]
    other = {"scales": "scale", "weight_scale": "weight_scale_inv"}.get(leaf, "weight_scale")
    case.tensors[f"{module}.{other}"] = case.tensors.pop(name)
    return True


@FAULTS.add
def leftover_beside_the_weight(case: Case, module: str) -> bool:
    case.tensors[f"{module}.weight_amax"] = "F32[1]"
    return True


@FAULTS.add
def norm_without_a_place(case: Case, module: str) -> bool:
    root = module.partition(".layers.")[0]
    case.tensors[f"{root}.embedding_norm.weight"] = f"BF16[{HIDDEN}]"
    return True


@FAULTS.add
def bias_without_a_place(case: Case, module: str) -> bool:
    n, _ = case.family.linears[module]
    name = f"{module}.bias"
    if name in case.tensors:
        return False
    case.tensors[name] = f"BF16[{n}]"
    return True


@FAULTS.add
def dense_copy_kept(case: Case, module: str) -> bool:
    n, k = case.family.linears[module]
    if "weight" in case.leaves(module):
        return False
    case.tensors[f"{module}.weight"] = f"BF16[{n},{k}]"
    return True


@FAULTS.add
def fused_on_disk(case: Case, module: str) -> bool:
    stems = [n.removesuffix("q_proj") for n in case.family.linears if n.endswith(".q_proj")]
    stems = [s for s in stems if f"{s}k_proj" in case.family.linears]
    for stem in stems:
        rows = sum(case.family.linears[f"{stem}{p}_proj"][0] for p in "qkv")
        for p in "qkv":
            drop(case, rf"{re.escape(stem)}{p}_proj\..*")
        for leaf, tensor in linear_tensors(case.method, rows, HIDDEN).items():
            case.tensors[f"{stem}qkv_proj.{leaf}"] = tensor
    return bool(stems)
