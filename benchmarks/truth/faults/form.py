"""Tensors of another form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.truth.faults.edits import FINAL_NORM, Faults, reshape, retype, scale
from tests.support.linears import linear_tensors

if TYPE_CHECKING:
    from benchmarks.truth.methods import Case

FAULTS = Faults()
_INT = ("gptq", "gptq-8bit", "awq", "auto-round")


def _four_rows(shape: list[int]) -> list[int]:
    return [shape[0] * 4, *shape[1:]]


def _four_columns(shape: list[int]) -> list[int]:
    return [*shape[:-1], shape[-1] * 4]


@FAULTS.add
def scale_transposed(case: Case, module: str) -> bool:
    return reshape(case, scale(case, module), lambda s: s[::-1])


@FAULTS.add
def scale_one_group_short(case: Case, module: str) -> bool:
    axis = 0 if case.method in _INT else 1

    def cut(shape: list[int]) -> list[int]:
        if len(shape) == 2 and shape[axis] > 1:
            shape[axis] -= 1
        return shape

    return reshape(case, scale(case, module), cut)


@FAULTS.add
def scale_per_tensor(case: Case, module: str) -> bool:
    return reshape(case, scale(case, module), lambda _: [1])


@FAULTS.add
def scale_as_integer(case: Case, module: str) -> bool:
    return retype(case, scale(case, module), "I8")


@FAULTS.add
def weight_transposed(case: Case, module: str) -> bool:
    leaf = next(n for n in ("qweight", "weight_packed", "weight") if n in case.leaves(module))
    return reshape(case, f"{module}.{leaf}", lambda s: s[::-1])


@FAULTS.add
def weight_packed_in_bytes(case: Case, module: str) -> bool:
    """Four bytes where the format has one 32-bit word."""
    for leaf in ("qweight", "weight_packed"):
        name = f"{module}.{leaf}"
        if case.tensors.get(name, "").startswith("I32"):
            along_rows = case.method in {"gptq", "gptq-8bit", "auto-round"}
            reshape(case, name, _four_rows if along_rows else _four_columns)
            return retype(case, name, "U8")
    return False


@FAULTS.add
def packed_along_the_other_axis(case: Case, module: str) -> bool:
    if case.method not in {"gptq", "gptq-8bit", "awq", "auto-round"}:
        return False
    n, k = case.family.linears[module]
    per = 4 if case.method == "gptq-8bit" else 8
    shape = (k // per, n) if case.method == "awq" else (k, n // per)
    case.tensors[f"{module}.qweight"] = f"I32[{shape[0]},{shape[1]}]"
    return True


@FAULTS.add
def weight_e5m2(case: Case, module: str) -> bool:
    name = f"{module}.weight"
    return case.tensors.get(name, "").startswith("F8") and retype(case, name, "F8_E5M2")


@FAULTS.add
def weight_as_integer(case: Case, module: str) -> bool:
    name = f"{module}.weight"
    return case.tensors.get(name, "").startswith("F8") and retype(case, name, "I8")


@FAULTS.add
def rows_padded(case: Case, module: str) -> bool:
    n, k = case.family.linears[module]
    for leaf, tensor in linear_tensors(case.method, n + 128, k).items():
        case.tensors[f"{module}.{leaf}"] = tensor
    return True


@FAULTS.add
def columns_halved(case: Case, module: str) -> bool:
    n, k = case.family.linears[module]
    for leaf, tensor in linear_tensors(case.method, n, k // 2).items():
        case.tensors[f"{module}.{leaf}"] = tensor
    return True


@FAULTS.add
def norm_of_wrong_size(case: Case, module: str) -> bool:
    names = [n for n in case.tensors if re.fullmatch(FINAL_NORM, n)]
    for name in names:
        reshape(case, name, lambda s: [s[0] // 2])
    return bool(names)
