"""Faults that people publish: each changes a healthy case, or says that it does not apply.

A fault is a function `(case, module)` that changes the case in place and returns whether it
could; `module` is a linear module to do it to, drawn by the caller.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.truth.methods import skip
from benchmarks.truth.usual_families import HIDDEN, LAYERS, VOCAB
from tests.support.build import linear_tensors, parse_tensor

if TYPE_CHECKING:
    from benchmarks.truth.methods import Case

Fault = Callable[["Case", str], bool]
FAULTS: dict[str, Fault] = {}

_SCALES = ("scales", "weight_scale", "weight_scale_inv")
_INT = ("gptq", "gptq-8bit", "awq", "auto-round")


def _fault(function: Fault) -> Fault:
    FAULTS[function.__name__] = function
    return function


def _scale(case: Case, module: str) -> str:
    return next(f"{module}.{leaf}" for leaf in _SCALES if f"{module}.{leaf}" in case.tensors)


def _reshape(case: Case, name: str, change: Callable[[list[int]], list[int]]) -> bool:
    dtype, shape = parse_tensor(case.tensors[name])
    new = change(list(shape))
    if new == list(shape):
        return False
    case.tensors[name] = f"{dtype}[{','.join(map(str, new))}]"
    return True


def _retype(case: Case, name: str, dtype: str) -> bool:
    old, shape = parse_tensor(case.tensors[name])
    case.tensors[name] = f"{dtype}[{','.join(map(str, shape))}]"
    return old != dtype


def _drop(case: Case, pattern: str) -> bool:
    """Leave out every tensor whose name matches."""
    names = [n for n in case.tensors if re.fullmatch(pattern, n)]
    for name in names:
        del case.tensors[name]
    return bool(names)


def _rename(case: Case, change: Callable[[str], str]) -> bool:
    before = dict(case.tensors)
    case.tensors.clear()
    case.tensors.update({change(name): tensor for name, tensor in before.items()})
    return case.tensors != before


def _weights(case: Case) -> list[dict[str, object]]:
    """The weight schemes of a compressed-tensors block."""
    groups = case.block.get("config_groups", {})
    return [group["weights"] for group in groups.values()]


def _four_rows(shape: list[int]) -> list[int]:
    return [shape[0] * 4, *shape[1:]]


def _four_columns(shape: list[int]) -> list[int]:
    return [*shape[:-1], shape[-1] * 4]


def _fused_with_others(case: Case, module: str) -> bool:
    """Whether vLLM fuses the module with others that are stored beside it."""
    leaf = module.rsplit(".", 1)[-1]
    return leaf in {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"}


# --- tensors that are missing -------------------------------------------------------------------


@_fault
def scale_missing(case: Case, module: str) -> bool:
    del case.tensors[_scale(case, module)]
    return True


@_fault
def scales_missing_everywhere(case: Case, module: str) -> bool:
    return _drop(case, r".*\.(scales|weight_scale|weight_scale_inv)")


@_fault
def weight_missing(case: Case, module: str) -> bool:
    leaf = next(n for n in ("qweight", "weight_packed", "weight") if n in case.leaves(module))
    del case.tensors[f"{module}.{leaf}"]
    return True


@_fault
def zero_points_missing(case: Case, module: str) -> bool:
    return _drop(case, rf"{re.escape(module)}\.(qzeros|weight_zero_point)")


@_fault
def second_scale_missing(case: Case, module: str) -> bool:
    return _drop(case, rf"{re.escape(module)}\.(weight_global_scale|weight_scale_2)")


@_fault
def input_scale_missing(case: Case, module: str) -> bool:
    return _drop(case, rf"{re.escape(module)}\.(input_global_scale|input_scale)")


@_fault
def group_index_missing(case: Case, module: str) -> bool:
    return _drop(case, rf"{re.escape(module)}\.g_idx")


@_fault
def shape_tensor_missing(case: Case, module: str) -> bool:
    return _drop(case, rf"{re.escape(module)}\.weight_shape")


@_fault
def module_missing(case: Case, module: str) -> bool:
    return _drop(case, rf"{re.escape(module)}\..*")


@_fault
def last_layer_missing(case: Case, module: str) -> bool:
    return _drop(case, rf"model\.layers\.{LAYERS - 1}\..*")


@_fault
def norm_missing(case: Case, module: str) -> bool:
    return _drop(case, r"model\.layers\.0\.post_attention_layernorm\.weight")


@_fault
def final_norm_missing(case: Case, module: str) -> bool:
    return _drop(case, r"model\.norm\.weight")


@_fault
def embedding_missing(case: Case, module: str) -> bool:
    return _drop(case, r"model\.embed_tokens\.weight")


@_fault
def head_missing(case: Case, module: str) -> bool:
    return _drop(case, r"lm_head\.weight")


@_fault
def expert_missing(case: Case, module: str) -> bool:
    return _drop(case, r"model\.layers\.1\..*\.experts\.2\..*")


@_fault
def router_missing(case: Case, module: str) -> bool:
    return bool(case.family.routers) and _drop(case, f"{next(iter(case.family.routers))}.*")


@_fault
def bias_missing(case: Case, module: str) -> bool:
    return _drop(case, rf"{re.escape(module)}\.bias")


# --- tensors of another form --------------------------------------------------------------------


@_fault
def scale_transposed(case: Case, module: str) -> bool:
    return _reshape(case, _scale(case, module), lambda s: s[::-1])


@_fault
def scale_one_group_short(case: Case, module: str) -> bool:
    axis = 0 if case.method in _INT else 1

    def cut(shape: list[int]) -> list[int]:
        if len(shape) == 2 and shape[axis] > 1:
            shape[axis] -= 1
        return shape

    return _reshape(case, _scale(case, module), cut)


@_fault
def scale_per_tensor(case: Case, module: str) -> bool:
    return _reshape(case, _scale(case, module), lambda _: [1])


@_fault
def scale_as_integer(case: Case, module: str) -> bool:
    return _retype(case, _scale(case, module), "I8")


@_fault
def weight_transposed(case: Case, module: str) -> bool:
    leaf = next(n for n in ("qweight", "weight_packed", "weight") if n in case.leaves(module))
    return _reshape(case, f"{module}.{leaf}", lambda s: s[::-1])


@_fault
def weight_packed_in_bytes(case: Case, module: str) -> bool:
    """Four bytes where the format has one 32-bit word."""
    for leaf in ("qweight", "weight_packed"):
        name = f"{module}.{leaf}"
        if case.tensors.get(name, "").startswith("I32"):
            along_rows = case.method in {"gptq", "gptq-8bit", "auto-round"}
            _reshape(case, name, _four_rows if along_rows else _four_columns)
            return _retype(case, name, "U8")
    return False


@_fault
def packed_along_the_other_axis(case: Case, module: str) -> bool:
    if case.method not in {"gptq", "gptq-8bit", "awq", "auto-round"}:
        return False
    n, k = case.family.linears[module]
    per = 4 if case.method == "gptq-8bit" else 8
    shape = (k // per, n) if case.method == "awq" else (k, n // per)
    case.tensors[f"{module}.qweight"] = f"I32[{shape[0]},{shape[1]}]"
    return True


@_fault
def weight_e5m2(case: Case, module: str) -> bool:
    name = f"{module}.weight"
    return case.tensors.get(name, "").startswith("F8") and _retype(case, name, "F8_E5M2")


@_fault
def weight_as_integer(case: Case, module: str) -> bool:
    name = f"{module}.weight"
    return case.tensors.get(name, "").startswith("F8") and _retype(case, name, "I8")


@_fault
def rows_padded(case: Case, module: str) -> bool:
    n, k = case.family.linears[module]
    for leaf, tensor in linear_tensors(case.method, n + 128, k).items():
        case.tensors[f"{module}.{leaf}"] = tensor
    return True


@_fault
def columns_halved(case: Case, module: str) -> bool:
    n, k = case.family.linears[module]
    for leaf, tensor in linear_tensors(case.method, n, k // 2).items():
        case.tensors[f"{module}.{leaf}"] = tensor
    return True


@_fault
def norm_of_wrong_size(case: Case, module: str) -> bool:
    case.tensors["model.norm.weight"] = f"BF16[{HIDDEN // 2}]"
    return True


# --- tensors of other names or too many ---------------------------------------------------------


@_fault
def prefix_doubled(case: Case, module: str) -> bool:
    return _rename(case, lambda n: f"model.{n}")


@_fault
def prefix_missing(case: Case, module: str) -> bool:
    return _rename(case, lambda n: n.removeprefix("model."))


@_fault
def scale_by_another_name(case: Case, module: str) -> bool:
    name = _scale(case, module)
    leaf = name.rsplit(".", 1)[-1]
    other = {"scales": "scale", "weight_scale": "weight_scale_inv"}.get(leaf, "weight_scale")
    case.tensors[f"{module}.{other}"] = case.tensors.pop(name)
    return True


@_fault
def leftover_beside_the_weight(case: Case, module: str) -> bool:
    case.tensors[f"{module}.weight_amax"] = "F32[1]"
    return True


@_fault
def bias_without_a_place(case: Case, module: str) -> bool:
    n, _ = case.family.linears[module]
    name = f"{module}.bias"
    if name in case.tensors:
        return False
    case.tensors[name] = f"BF16[{n}]"
    return True


@_fault
def dense_copy_kept(case: Case, module: str) -> bool:
    n, k = case.family.linears[module]
    if "weight" in case.leaves(module):
        return False
    case.tensors[f"{module}.weight"] = f"BF16[{n},{k}]"
    return True


@_fault
def fused_on_disk(case: Case, module: str) -> bool:
    stems = [n.removesuffix("q_proj") for n in case.family.linears if n.endswith(".q_proj")]
    stems = [s for s in stems if f"{s}k_proj" in case.family.linears]
    for stem in stems:
        rows = sum(case.family.linears[f"{stem}{p}_proj"][0] for p in "qkv")
        for p in "qkv":
            _drop(case, rf"{re.escape(stem)}{p}_proj\..*")
        for leaf, tensor in linear_tensors(case.method, rows, HIDDEN).items():
            case.tensors[f"{stem}qkv_proj.{leaf}"] = tensor
    return bool(stems)


# --- modules quantized or not -------------------------------------------------------------------


@_fault
def dense_unlisted(case: Case, module: str) -> bool:
    case.make_dense(module, *case.family.linears[module])
    return True


@_fault
def dense_listed(case: Case, module: str) -> bool:
    """A healthy one, unless the module is one of several that vLLM fuses."""
    case.make_dense(module, *case.family.linears[module])
    skip(case, [module])
    return True


@_fault
def listed_but_quantized(case: Case, module: str) -> bool:
    skip(case, [module])
    return True


@_fault
def listed_without_prefix(case: Case, module: str) -> bool:
    case.make_dense(module, *case.family.linears[module])
    skip(case, [module.removeprefix("model.layers.")])
    return case.block["quant_method"] != "gptq"


@_fault
def attention_left_dense_and_listed(case: Case, module: str) -> bool:
    """A healthy one: every projection of the attention is skipped."""
    names = [n for n in case.family.linears if ".self_attn." in n]
    for name in names:
        case.make_dense(name, *case.family.linears[name])
    skip(case, names)
    return True


@_fault
def router_quantized(case: Case, module: str) -> bool:
    for name, (_, k) in case.family.routers.items():
        del case.tensors[f"{name}.weight"]
        for leaf, tensor in linear_tensors(case.method, 128, k).items():
            case.tensors[f"{name}.{leaf}"] = tensor
        return True
    return False


@_fault
def head_quantized_undeclared(case: Case, module: str) -> bool:
    if not _drop(case, r"lm_head\.weight"):
        return False
    for leaf, tensor in linear_tensors(case.method, VOCAB, HIDDEN).items():
        case.tensors[f"lm_head.{leaf}"] = tensor
    return True


@_fault
def nothing_quantized(case: Case, module: str) -> bool:
    for name, (n, k) in case.family.linears.items():
        case.make_dense(name, n, k)
    return True


# --- the declaration ----------------------------------------------------------------------------


@_fault
def block_missing(case: Case, module: str) -> bool:
    del case.config["quantization_config"]
    return True


@_fault
def method_missing(case: Case, module: str) -> bool:
    del case.block["quant_method"]
    return True


@_fault
def method_unknown(case: Case, module: str) -> bool:
    case.block["quant_method"] = "int4_tuned"
    return True


@_fault
def method_of_another_tool(case: Case, module: str) -> bool:
    other = {"gptq": "awq", "awq": "gptq", "fp8": "compressed-tensors", "modelopt": "fp8"}
    old = case.block["quant_method"]
    case.block["quant_method"] = other.get(old, "gptq")
    case.block.setdefault("bits", 4)
    case.block.setdefault("group_size", 128)
    case.block.setdefault("zero_point", True)
    case.block.setdefault("desc_act", False)
    return True


@_fault
def bits_doubled(case: Case, module: str) -> bool:
    if "bits" in case.block:
        case.block["bits"] = 4 if case.block["bits"] == 8 else 8
        return True
    weights = [w for w in _weights(case) if w["type"] == "int"]
    for scheme in weights:
        scheme["num_bits"] = 4 if scheme["num_bits"] == 8 else 8
    return bool(weights)


@_fault
def group_size_halved(case: Case, module: str) -> bool:
    if "group_size" in case.block:
        case.block["group_size"] = 64
        return True
    weights = [w for w in _weights(case) if w.get("group_size") == 128]
    for scheme in weights:
        scheme["group_size"] = 64
    return bool(weights)


@_fault
def symmetry_flipped(case: Case, module: str) -> bool:
    for key in ("sym", "zero_point"):
        if key in case.block:
            case.block[key] = not case.block[key]
            return True
    weights = _weights(case)
    for scheme in weights:
        scheme["symmetric"] = not scheme["symmetric"]
    return bool(weights)


@_fault
def strategy_changed(case: Case, module: str) -> bool:
    other = {"channel": "tensor", "tensor": "channel", "group": "channel", "block": "tensor"}
    weights = [w for w in _weights(case) if w["strategy"] in other]
    for scheme in weights:
        scheme["strategy"] = other[str(scheme["strategy"])]
    return bool(weights)


@_fault
def number_type_changed(case: Case, module: str) -> bool:
    weights = _weights(case)
    for scheme in weights:
        scheme["type"] = "int" if scheme["type"] == "float" else "float"
    return bool(weights)


@_fault
def block_size_changed(case: Case, module: str) -> bool:
    if "weight_block_size" not in case.block:
        return False
    case.block["weight_block_size"] = [64, 64]
    return True


@_fault
def static_without_scales(case: Case, module: str) -> bool:
    if "activation_scheme" not in case.block:
        return False
    _drop(case, r".*\.input_scale")
    case.block["activation_scheme"] = "static"
    return True


@_fault
def algorithm_changed(case: Case, module: str) -> bool:
    if "quant_algo" not in case.block:
        return False
    case.block["quant_algo"] = "FP8" if case.block["quant_algo"] == "NVFP4" else "NVFP4"
    return True


@_fault
def activation_order_declared(case: Case, module: str) -> bool:
    if "desc_act" not in case.block:
        return False
    case.block["desc_act"] = True
    return True


@_fault
def awq_version_changed(case: Case, module: str) -> bool:
    if "version" not in case.block or case.method != "awq":
        return False
    case.block["version"] = "gemv"
    return True


@_fault
def skip_list_empty(case: Case, module: str) -> bool:
    for key in ("ignore", "exclude", "modules_to_not_convert"):
        if case.block.get(key):
            case.block[key] = []
            return True
    return False


@_fault
def targets_of_nothing(case: Case, module: str) -> bool:
    for group in case.block.get("config_groups", {}).values():
        group["targets"] = ["re:.*attention.*"]
        return True
    return False


@_fault
def targets_by_name(case: Case, module: str) -> bool:
    """A healthy one: every projection named instead of the class."""
    leaves = sorted({n.rsplit(".", 1)[-1] for n in case.family.linears})
    for group in case.block.get("config_groups", {}).values():
        group["targets"] = [f"re:.*{leaf}$" for leaf in leaves]
        return True
    return False


@_fault
def targets_without_one(case: Case, module: str) -> bool:
    leaf = module.rsplit(".", 1)[-1]
    leaves = sorted({n.rsplit(".", 1)[-1] for n in case.family.linears} - {leaf})
    for group in case.block.get("config_groups", {}).values():
        group["targets"] = [f"re:.*{name}$" for name in leaves]
        return True
    return False


@_fault
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


@_fault
def side_file_contradicts(case: Case, module: str) -> bool:
    """quantize_config.json with other bits; vLLM reads config.json alone."""
    if case.block["quant_method"] not in {"gptq", "awq"}:
        return False
    case.sides["quantize_config.json"] = {**case.block, "bits": 3}
    return True


# --- the sizes in the config --------------------------------------------------------------------


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


@_fault
def tied_flag_flipped(case: Case, module: str) -> bool:
    case.config["tie_word_embeddings"] = not case.config["tie_word_embeddings"]
    return True


@_fault
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
