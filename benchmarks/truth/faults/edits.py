"""What a fault is, and the changes of tensors that many are made of."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.support.build import parse_tensor

if TYPE_CHECKING:
    from benchmarks.truth.methods import Case

Fault = Callable[["Case", str], bool]


class Faults(dict[str, Fault]):
    """Faults by name, in the order in which they were added."""

    def add(self, fault: Fault) -> Fault:
        """Add a fault by the name of its function."""
        self[fault.__name__] = fault
        return fault


FINAL_NORM = r"\w+\.\w*norm\w*\.weight"
_SCALES = ("scales", "weight_scale", "weight_scale_inv")


def scale(case: Case, module: str) -> str:
    return next(f"{module}.{leaf}" for leaf in _SCALES if f"{module}.{leaf}" in case.tensors)


def reshape(case: Case, name: str, change: Callable[[list[int]], list[int]]) -> bool:
    dtype, shape = parse_tensor(case.tensors[name])
    new = change(list(shape))
    if new == list(shape):
        return False
    case.tensors[name] = f"{dtype}[{','.join(map(str, new))}]"
    return True


def retype(case: Case, name: str, dtype: str) -> bool:
    old, shape = parse_tensor(case.tensors[name])
    case.tensors[name] = f"{dtype}[{','.join(map(str, shape))}]"
    return old != dtype


def drop(case: Case, pattern: str) -> bool:
    """Leave out every tensor whose name matches."""
    names = [n for n in case.tensors if re.fullmatch(pattern, n)]
    for name in names:
        del case.tensors[name]
    return bool(names)


def rename(case: Case, change: Callable[[str], str]) -> bool:
    before = dict(case.tensors)
    case.tensors.clear()
    case.tensors.update({change(name): tensor for name, tensor in before.items()})
    return case.tensors != before
