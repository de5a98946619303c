"""Finding the quantization block that vLLM uses, and giving it to the method that reads it.

Source: vLLM 0.33.0, transformers_utils/model_arch_config_convertor.py (where the block lies) and
model_loader/weight_utils.py get_quant_config.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.quantization import (
    auto_round,
    awq,
    bitsandbytes,
    compressed_tensors,
    experts_int8,
    fbgemm,
    fp8,
    gptq,
    modelopt,
    mxfp4,
    quark,
    torchao,
)
from quantgate.quantization.declaration import Declaration, Problem, ProblemKind, type_name
from quantgate.quantization.modelopt import ModelOptDeclaration

if TYPE_CHECKING:
    from collections.abc import Mapping

# vLLM 0.33.0, layers/quantization/__init__.py QuantizationMethods, with the spellings that the
# override probes of config/model.py rewrite.
KNOWN_METHODS = frozenset(
    {
        *("awq", "auto_awq", "awq_marlin", "gptq", "auto_gptq", "gptq_marlin", "fp8"),
        *("fbgemm_fp8", "fp_quant", "modelopt", "modelopt_fp4", "modelopt_mxfp8"),
        *("modelopt_mixed", "humming", "compressed-tensors", "experts_int8", "quark"),
        *("moe_wna16", "torchao", "inc", "auto-round", "mxfp4", "gpt_oss_mxfp4"),
        *("deepseek_v4_fp8", "mxfp8"),
    }
)
# Methods of checkpoints that older releases had, 0.10.2 being the oldest looked at.
FORMER_METHODS = frozenset(
    {
        *("bitblas", "bitsandbytes", "deepspeedfp", "gguf", "gptq_bitblas", "gptq_marlin_24"),
        *("hqq", "ipex", "petit_nvfp4", "ptpc_fp8", "rtn", "tpu_int8"),
    }
)
# Stands for whatever Mistral's own format declares in params.json; no method of vLLM's.
MISTRAL = "mistral"
# Quantize a dense checkpoint while loading it; none of them can stand in a config.json.
ONLINE_METHODS = frozenset(
    {
        *("online", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel"),
        *("int8_per_channel_weight_only", "nvfp4_per_token"),
    }
)


def read_declaration(
    config: Mapping[str, Any], side_files: Mapping[str, Any]
) -> Declaration | None:
    """Find and parse the block that vLLM uses; None if vLLM takes the model for unquantized.

    Args:
        config: The content of config.json.
        side_files: Parsed side files by name; only hf_quant_config.json can stand in for a block
            that config.json lacks. A quantize_config.json alone is never looked at.
    """
    located = locate(config, side_files)
    if located is None:
        return None
    file, path, raw = located
    if not isinstance(raw, dict):
        problem = Problem(
            ProblemKind.VALUE,
            "",
            "an object",
            type_name(raw),
            "AttributeError: object has no attribute 'get'",
        )
        return Declaration(
            method="", file=file, path=path, raw={}, problems=(problem,), modelled=False
        )
    declaration = _parse(raw, file, path)
    if isinstance(declaration, ModelOptDeclaration) and declaration.mixed:
        side = side_files.get("hf_quant_config.json")
        if not declaration.layers and file == "config.json" and isinstance(side, dict):
            return _parse({"quant_method": declaration.method, **side}, "hf_quant_config.json", "")
    return declaration


def locate(
    config: Mapping[str, Any], side_files: Mapping[str, Any]
) -> tuple[str, str, object] | None:
    """(file, JSON pointer, block) of the block that vLLM takes: the first that exists."""
    # llm_config becomes text_config (transformers_utils/config.py _CONFIG_ATTRS_MAPPING).
    inner = "text_config" if "text_config" in config else "llm_config"
    text = config.get(inner)
    text = text if isinstance(text, dict) else {}
    side = side_files.get("hf_quant_config.json")
    candidates: list[tuple[str, str, object]] = [
        ("config.json", "/quantization_config", config.get("quantization_config"))
    ]
    if side is not None:
        candidates.append(("hf_quant_config.json", "", side))
    candidates += [
        ("config.json", "/compression_config", config.get("compression_config")),
        ("config.json", f"/{inner}/quantization_config", text.get("quantization_config")),
        ("config.json", f"/{inner}/compression_config", text.get("compression_config")),
    ]
    return next((c for c in candidates if c[2] is not None), None)


def _parse(raw: dict[str, Any], file: str, path: str) -> Declaration:
    name = raw.get("quant_method")
    method = name.lower() if isinstance(name, str) else ""
    method = "compressed-tensors" if method == "compressed_tensors" else method
    nested, problem = modelopt.modelopt_method(raw)
    method = nested or method
    match method:
        case "gptq" | "auto_gptq" | "gptq_marlin":
            return gptq.parse(raw, file, path)
        case "awq" | "auto_awq" | "awq_marlin":
            return awq.parse(raw, file, path)
        case "bitsandbytes":
            return bitsandbytes.parse(raw, file, path)
        case "compressed-tensors":
            return compressed_tensors.parse(raw, file, path)
        case "fp8":
            return fp8.parse(raw, file, path)
        case "fbgemm_fp8":
            return fbgemm.parse(raw, file, path)
        case "experts_int8":
            return experts_int8.parse(raw, file, path)
        case "auto-round" | "inc":
            return auto_round.parse(raw, method, file, path)
        case "mxfp4" | "gpt_oss_mxfp4":
            return mxfp4.parse(raw, method, file, path)
        case "quark":
            return quark.parse(raw, file, path)
        case "torchao":
            return torchao.parse(raw, file, path)
        case "modelopt" | "modelopt_fp4" | "modelopt_mxfp8" | "modelopt_mixed" | "mxfp8" if (
            problem is None
        ):
            return modelopt.parse(raw, method, file, path)
    if name is not None and not isinstance(name, str):
        error = "AttributeError: object has no attribute 'lower'"
        problem = Problem(ProblemKind.VALUE, "quant_method", "a string", type_name(name), error)
    elif method in ONLINE_METHODS:
        error = "NotImplementedError: does not support loading from a checkpoint config"
        problem = Problem(
            ProblemKind.METHOD, "quant_method", "a method of quantized checkpoints", method, error
        )
    elif method and method not in KNOWN_METHODS | FORMER_METHODS:
        error = f"Unknown quantization method: {method}. Must be one of [...]"
        problem = Problem(
            ProblemKind.METHOD, "quant_method", "a method that vLLM knows", method, error
        )
    problems = (problem,) if problem is not None else ()
    return Declaration(
        method=method, file=file, path=path, raw=raw, problems=problems, modelled=False
    )
