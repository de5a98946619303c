"""Declarations that say something else."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from benchmarks.truth.faults.edits import Faults, drop

if TYPE_CHECKING:
    from benchmarks.truth.methods import Case

FAULTS = Faults()


def _weights(case: Case) -> list[dict[str, object]]:
    """The weight schemes of a compressed-tensors block."""
    groups = case.block.get("config_groups", {})
    return [group["weights"] for group in groups.values()]


def _fused_with_others(case: Case, module: str) -> bool:
    """Whether vLLM fuses the module with others that are stored beside it."""
    leaf = module.rsplit(".", 1)[-1]
    return leaf in {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}


@FAULTS.add
def block_missing(case: Case, module: str) -> bool:
    del case.config["quantization_config"]
    return True


@FAULTS.add
def method_missing(case: Case, module: str) -> bool:
    del case.block["quant_method"]
    return True


@FAULTS.add
def method_unknown(case: Case, module: str) -> bool:
    case.block["quant_method"] = "int4_tuned"
    return True


@FAULTS.add
def method_of_another_tool(case: Case, module: str) -> bool:
    other = {"gptq": "awq", "awq": "gptq", "fp8": "compressed-tensors", "modelopt": "fp8"}
    old = case.block["quant_method"]
    case.block["quant_method"] = other.get(old, "gptq")
    case.block.setdefault("bits", 4)
    case.block.setdefault("group_size", 128)
    case.block.setdefault("zero_point", True)
    case.block.setdefault("desc_act", False)
    return True


@FAULTS.add
def bits_doubled(case: Case, module: str) -> bool:
    if "bits" in case.block:
        case.block["bits"] = 4 if case.block["bits"] == 8 else 8
        return True
    weights = [w for w in _weights(case) if w["type"] == "int"]
    for scheme in weights:
        scheme["num_bits"] = 4 if scheme["num_bits"] == 8 else 8
    return bool(weights)


@FAULTS.add
def group_size_halved(case: Case, module: str) -> bool:
    if "group_size" in case.block:
        case.block["group_size"] = 64
        return True
    weights = [w for w in _weights(case) if w.get("group_size") == 128]
    for scheme in weights:
        scheme["group_size"] = 64
    return bool(weights)


@FAULTS.add
def symmetry_flipped(case: Case, module: str) -> bool:
    for key in ("sym", "zero_point"):
        if key in case.block:
            case.block[key] = not case.block[key]
            return True
    weights = _weights(case)
    for scheme in weights:
        scheme["symmetric"] = not scheme["symmetric"]
    return bool(weights)


@FAULTS.add
def strategy_changed(case: Case, module: str) -> bool:
    other = {"channel": "tensor", "tensor": "channel", "group": "channel", "block": "tensor"}
    weights = [w for w in _weights(case) if w["strategy"] in other]
    for scheme in weights:
        scheme["strategy"] = other[str(scheme["strategy"])]
    return bool(weights)


@FAULTS.add
def number_type_changed(case: Case, module: str) -> bool:
    weights = _weights(case)
    for scheme in weights:
        scheme["type"] = "int" if scheme["type"] == "float" else "float"
    return bool(weights)


@FAULTS.add
def block_size_changed(case: Case, module: str) -> bool:
    if "weight_block_size" not in case.block:
        return False
    case.block["weight_block_size"] = [64, 64]
    return True


@FAULTS.add
def static_without_scales(case: Case, module: str) -> bool:
    if "activation_scheme" not in case.block:
        return False
    drop(case, r".*\.input_scale")
    case.block["activation_scheme"] = "static"
    return True


@FAULTS.add
def algorithm_changed(case: Case, module: str) -> bool:
    if "quant_algo" not in case.block:
        return False
    case.block["quant_algo"] = "FP8" if case.block["quant_algo"] == "NVFP4" else "NVFP4"
    return True


@FAULTS.add
def activation_order_declared(case: Case, module: str) -> bool:
    if "desc_act" not in case.block:
        return False
    case.block["desc_act"] = True
    return True


@FAULTS.add
def awq_version_changed(case: Case, module: str) -> bool:
    if "version" not in case.block or case.method != "awq":
        return False
    case.block["version"] = "gemv"
    return True


@FAULTS.add
def skip_list_empty(case: Case, module: str) -> bool:
    for key in ("ignore", "exclude", "modules_to_not_convert"):
        if case.block.get(key):
            case.block[key] = []
            return True
    return False


@FAULTS.add
def targets_of_nothing(case: Case, module: str) -> bool:
    for group in case.block.get("config_groups", {}).values():
        group["targets"] = ["re:.*attention.*"]
        return True
    return False


@FAULTS.add
def targets_by_name(case: Case, module: str) -> bool:
    """A healthy one: every projection named instead of the class."""
    leaves = sorted({n.rsplit(".", 1)[-1] for n in case.family.linears})
    for group in case.block.get("config_groups", {}).values():
        group["targets"] = [f"re:.*{leaf}$" for leaf in leaves]
        return True
    return False


@FAULTS.add
def targets_without_one(case: Case, module: str) -> bool:
    leaf = module.rsplit(".", 1)[-1]
    leaves = sorted({n.rsplit(".", 1)[-1] for n in case.family.linears} - {leaf})
    for group in case.block.get("config_groups", {}).values():
        group["targets"] = [f"re:.*{name}$" for name in leaves]
        return True
    return False


@FAULTS.add
def two_schemes_in_one_fused(case: Case, module: str) -> bool:
    """One shard of a fused projection in a group of its own, with the same tensors."""
    groups = case.block.get("config_groups")
    if not groups or not _fused_with_others(case, module):
        return False
    second = copy.deepcopy(next(iter(groups.values())))
    second["targets"] = [f"re:.*{module.rsplit('.', 1)[-1]}$"]
    if second["weights"].get("group_size") != 128:
        return False
    second["weights"]["group_size"] = 64
    groups["group_1"] = second
    for name in case.family.linears:
        if name.rsplit(".", 1)[-1] == module.rsplit(".", 1)[-1]:
            size, k = case.family.linears[name]
            if f"{name}.weight_scale" in case.tensors:
                case.tensors[f"{name}.weight_scale"] = f"BF16[{size},{k // 64}]"
    return True


@FAULTS.add
def side_file_contradicts(case: Case, module: str) -> bool:
    """quantize_config.json with other bits; vLLM reads config.json alone."""
    if case.block["quant_method"] not in {"gptq", "awq"}:
        return False
    case.sides["quantize_config.json"] = {**case.block, "bits": 3}
    return True
