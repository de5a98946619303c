"""Modules that are quantized or not, against what is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.truth.faults.edits import Faults, drop
from benchmarks.truth.methods import skip
from benchmarks.truth.usual_families import HIDDEN, VOCAB
from tests.support.linears import linear_tensors

if TYPE_CHECKING:
    from benchmarks.truth.methods import Case

FAULTS = Faults()


@FAULTS.add
def dense_unlisted(case: Case, module: str) -> bool:
    case.make_dense(module, *case.family.linears[module])
    return True


@FAULTS.add
def dense_listed(case: Case, module: str) -> bool:
    """A healthy one, unless the module is one of several that vLLM fuses."""
    case.make_dense(module, *case.family.linears[module])
    skip(case, [module])
    return True


@FAULTS.add
def listed_but_quantized(case: Case, module: str) -> bool:
    skip(case, [module])
    return True


@FAULTS.add
def listed_without_prefix(case: Case, module: str) -> bool:
    case.make_dense(module, *case.family.linears[module])
    skip(case, [module.removeprefix("model.layers.")])
    return case.block["quant_method"] != "gptq"


@FAULTS.add
def attention_left_dense_and_listed(case: Case, module: str) -> bool:
    """A healthy one: every projection of the attention is skipped."""
    names = [n for n in case.family.linears if ".self_attn." in n]
    for name in names:
        case.make_dense(name, *case.family.linears[name])
    skip(case, names)
    return True


@FAULTS.add
def router_quantized(case: Case, module: str) -> bool:
    for name, (_, k) in case.family.routers.items():
        del case.tensors[f"{name}.weight"]
        for leaf, tensor in linear_tensors(case.method, 128, k).items():
            case.tensors[f"{name}.{leaf}"] = tensor
        return True
    return False


@FAULTS.add
def head_quantized_undeclared(case: Case, module: str) -> bool:
    if not drop(case, r"lm_head\.weight"):
        return False
    for leaf, tensor in linear_tensors(case.method, VOCAB, HIDDEN).items():
        case.tensors[f"lm_head.{leaf}"] = tensor
    return True


@FAULTS.add
def nothing_quantized(case: Case, module: str) -> bool:
    for name, (n, k) in case.family.linears.items():
        case.make_dense(name, n, k)
    return True
