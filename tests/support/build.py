"""Small checkpoints for tests: healthy ones by method, and files of real bytes from short text.

`"F16[2,64]"` stands for a tensor's type and shape. Weight files are real safetensors files whose
data area is a hole, so that a checkpoint of any size costs nothing.
"""

from __future__ import annotations

import copy
import json
import math
import re
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    "F6_E2M3": 6,
    "F4": 4,
}
_TENSOR = re.compile(r"(\w+)\[([\d, ]*)\]")

Tensors = dict[str, str]


def parse_tensor(text: str) -> tuple[str, tuple[int, ...]]:
    """`F16[2,64]` → ("F16", (2, 64))."""
    match = _TENSOR.fullmatch(text)
    assert match, f"not a tensor: {text!r}"
    return match[1], tuple(int(n) for n in match[2].split(",") if n.strip())


def header_bytes(tensors: Mapping[str, str], metadata: Mapping[str, str] | None = None) -> bytes:
    """Length prefix and JSON header of a safetensors file with these tensors.

    Without metadata of one's own, a file of torchao's tensors gets the one that torchao writes.
    """
    if metadata is None:
        metadata = {"format": "pt", **torchao_metadata(tensors)}
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, text in tensors.items():
        dtype, shape = parse_tensor(text)
        size = BITS[dtype] * math.prod(shape) // 8
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [offset, offset + size],
        }
        offset += size
    blob = json.dumps(header).encode()
    blob += b" " * (-len(blob) % 8)
    return struct.pack("<Q", len(blob)) + blob


def torchao_metadata(tensors: Mapping[str, str]) -> dict[str, str]:
    """The metadata that torchao 0.18 writes for these tensors; none if none is quantized."""
    if not any("._weight_" in name for name in tensors):
        return {}
    parts: dict[str, dict[str, str]] = {}
    for name, text in tensors.items():
        module, _, part = name.partition("._weight_")
        parts.setdefault(f"{module}.weight" if part else name, {})[part] = text
    entries: dict[str, Any] = {}
    for name, stored in parts.items():
        if "qdata" not in stored:
            entries[name] = {"_type": "Tensor"}
            continue
        dtype, shape = parse_tensor(stored["qdata"])
        lengths = parse_tensor(stored["scale"])[1] if "scale" in stored else (1, 1)
        groups = (lengths[-1] if lengths else 1) or 1
        data: dict[str, Any] = {"block_size": [1, (shape[-1] if shape else 1) // groups]}
        if dtype == "F8_E4M3":
            kind, more = "Float8Tensor", {"act_quant_kwargs": None}
        elif groups == 1:
            kind, more = "Int8Tensor", {"act_quant_kwargs": None}
        else:
            four: dict[str, Any] = {"_type": "torch.dtype", "_data": "int4"}
            kind, more = (
                "IntxUnpackedToInt8Tensor",
                {"target_dtype": four, "activation_quantization": None},
            )
        entries[name] = {"_type": kind, "_data": data | more, "_tensor_data_names": list(stored)}
    texts = {name: json.dumps(entry) for name, entry in entries.items()}
    return {**texts, "tensor_names": json.dumps(list(entries))}


def data_size(tensors: Mapping[str, str]) -> int:
    """Bytes of the data area."""
    parsed = (parse_tensor(t) for t in tensors.values())
    return sum(BITS[dtype] * math.prod(shape) // 8 for dtype, shape in parsed)


def write_weights(
    path: Path,
    tensors: Mapping[str, str],
    *,
    cut: int = 0,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a weight file; `cut` bytes are missing at its end (negative: surplus)."""
    head = header_bytes(tensors, metadata)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + data_size(tensors) - cut)


def write_checkpoint(
    folder: Path,
    config: Mapping[str, Any] | None,
    files: Mapping[str, Mapping[str, str]],
    sides: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model folder: config.json, side files (JSON values or raw text), weight files."""
    folder.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    for name, value in (sides or {}).items():
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / name).write_text(text)
    for name, tensors in files.items():
        write_weights(folder / name, tensors)
    return folder


LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LINEARS = {
    "self_attn.q_proj": (256, 256),
    "self_attn.k_proj": (128, 256),
    "self_attn.v_proj": (128, 256),
    "self_attn.o_proj": (256, 256),
    "mlp.gate_proj": (512, 256),
    "mlp.up_proj": (512, 256),
    "mlp.down_proj": (256, 512),
}


def _int(bits: int, strategy: str, group_size: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "num_bits": bits,
        "type": "int",
        "strategy": strategy,
        "group_size": group_size,
        "symmetric": True,
        "dynamic": False,
        **more,
    }


def _float(bits: int, strategy: str, *, dynamic: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "num_bits": bits,
        "type": "float",
        "strategy": strategy,
        "symmetric": True,
        "dynamic": dynamic,
        **more,
    }


def _ct(layout: str, weights: dict[str, Any], inputs: dict[str, Any] | None = None) -> Any:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": layout,
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
    }


def _modelopt(algorithm: str) -> Any:
    return {
        "quant_method": "modelopt",
        "quant_algo": algorithm,
        "ignore": ["lm_head"],
        "producer": {"name": "modelopt", "version": "0.39.0"},
    }


def _quark(weight: Any, inputs: Any = None) -> Any:
    return {
        "quant_method": "quark",
        "exclude": ["lm_head"],
        "export": {"kv_cache_group": [], "pack_method": "reorder"},
        "global_quant_config": {"weight": weight, "input_tensors": inputs},
        "layer_quant_config": {},
        "layer_type_quant_config": {},
    }


def _auto_round(bits: int, group_size: Any, **more: Any) -> Any:
    return {
        "quant_method": "auto-round",
        "bits": bits,
        "group_size": group_size,
        "sym": True,
        "autoround_version": "0.9.0",
        "block_name_to_quantize": "model.layers",
        **more,
    }


def _torchao_object(name: str, version: int = 1, **data: Any) -> dict[str, Any]:
    return {"_type": name, "_version": version, "_data": data}


def _torchao(name: str, **data: Any) -> Any:
    return {
        "quant_method": "torchao",
        "quant_type": {"default": _torchao_object(name, 2, **data)},
        "modules_to_not_convert": None,
    }


_QUARK_FP4 = {"dtype": "fp4", "qscheme": "per_group", "scale_format": "e8m0"}
_NVFP4 = _float(4, "tensor_group", group_size=16)
DECLARATIONS: dict[str, Any] = {
    "gptq": {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": 128,
        "desc_act": False,
        "sym": True,
        "checkpoint_format": "gptq",
    },
    "gptq-8bit": {
        "quant_method": "gptq",
        "bits": 8,
        "group_size": 128,
        "desc_act": False,
        "sym": True,
    },
    "awq": {
        "quant_method": "awq",
        "bits": 4,
        "group_size": 128,
        "zero_point": True,
        "version": "gemm",
    },
    "pack": _ct("pack-quantized", _int(4, "group", 128)),
    "pack-asym": _ct("pack-quantized", _int(4, "group", 128, symmetric=False)),
    "pack-channel": _ct("pack-quantized", _int(8, "channel")),
    "pack-3bit": _ct("pack-quantized", _int(3, "group", 128)),
    "pack-extras": _ct("pack-quantized", _int(4, "group", 128))
    | {
        "kv_cache_scheme": _float(8, "tensor"),
        "sparsity_config": {"format": "dense", "sparsity_structure": "unstructured", "targets": []},
        "transform_config": {
            "config_groups": {
                "R1": {
                    "type": "hadamard",
                    "apply": [{"targets": ["Linear"], "location": "weight_input", "ignore": []}],
                },
                "R3": {
                    "type": "hadamard",
                    "apply": [{"targets": ["re:.*self_attn$"], "location": "k_cache"}],
                },
            }
        },
    },
    "w4a8-fp8": _ct("pack-quantized", _int(4, "group", 128), _float(8, "token", dynamic=True)),
    "w4a8-int": _ct("int-quantized", _int(4, "channel"), _int(8, "token", dynamic=True)),
    "int8": _ct("int-quantized", _int(8, "channel"), _int(8, "token", dynamic=True)),
    "fp8-dynamic": _ct("float-quantized", _float(8, "channel"), _float(8, "token", dynamic=True)),
    "fp8-static": _ct("float-quantized", _float(8, "tensor"), _float(8, "tensor")),
    "fp8-block-ct": _ct(
        "float-quantized",
        _float(8, "block", block_structure=[128, 128]),
        _float(8, "group", dynamic=True, group_size=128),
    ),
    "nvfp4": _ct(
        "nvfp4-pack-quantized",
        _NVFP4,
        _float(4, "tensor_group", dynamic=False, group_size=16) | {"dynamic": "local"},
    ),
    "nvfp4a16": _ct("nvfp4-pack-quantized", _NVFP4),
    "mxfp4": _ct("mxfp4-pack-quantized", _float(4, "group", group_size=32)),
    "fp8": {"quant_method": "fp8", "activation_scheme": "static"},
    "fp8-block": {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
    },
    "modelopt-fp8": _modelopt("FP8"),
    "modelopt-channel": _modelopt("FP8_PER_CHANNEL_PER_TOKEN"),
    "modelopt-block": _modelopt("FP8_PB_WO"),
    "modelopt-nvfp4": _modelopt("NVFP4"),
    "modelopt-w4a16": _modelopt("W4A16_NVFP4"),
    "modelopt-mxfp8": _modelopt("MXFP8"),
    "quark-fp8": _quark(
        {"dtype": "fp8_e4m3", "qscheme": "per_tensor"},
        {"dtype": "fp8_e4m3", "qscheme": "per_tensor"},
    ),
    "quark-channel": _quark(
        {"dtype": "fp8_e4m3", "qscheme": "per_channel"},
        {"dtype": "fp8_e4m3", "qscheme": "per_channel", "is_dynamic": True},
    ),
    "quark-int8": _quark(
        {"dtype": "int8", "qscheme": "per_channel", "symmetric": True},
        {"dtype": "int8", "qscheme": "per_channel", "symmetric": True, "is_dynamic": True},
    ),
    "quark-int4": _quark(
        {"dtype": "int4", "qscheme": "per_group", "group_size": 128, "symmetric": True}
    ),
    "quark-mxfp4": _quark(_QUARK_FP4 | {"group_size": 32}, _QUARK_FP4 | {"is_dynamic": True}),
    "quark-nvfp4": _quark(
        [_QUARK_FP4 | {"group_size": 16}, {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}],
        [
            _QUARK_FP4 | {"group_size": 16, "is_dynamic": True},
            {"dtype": "fp8_e4m3", "qscheme": "per_tensor"},
        ],
    ),
    "auto-round": _auto_round(4, 128),
    "auto-round-awq": _auto_round(4, 128, packing_format="auto_round:auto_awq", sym=False),
    "auto-round-fp8": _auto_round(8, [128, 128], data_type="fp"),
    "auto-round-mxfp4": _auto_round(4, 32, data_type="mx_fp"),
    "auto-round-mxfp8": _auto_round(8, 32, data_type="mx_fp"),
    "bnb-nf4": {
        "quant_method": "bitsandbytes",
        "load_in_4bit": True,
        "load_in_8bit": False,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_quant_storage": "uint8",
        "bnb_4bit_use_double_quant": False,
        "llm_int8_skip_modules": None,
    },
    "bnb-double": {
        "quant_method": "bitsandbytes",
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True,
    },
    "bnb-int8": {"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False},
    "torchao-int8": _torchao("Int8WeightOnlyConfig", granularity=_torchao_object("PerRow", dim=-1)),
    "torchao-int4": _torchao(
        "IntxWeightOnlyConfig",
        weight_dtype={"_type": "torch.dtype", "_data": "int4"},
        granularity=_torchao_object("PerGroup", group_size=32),
    ),
    "torchao-fp8": _torchao("Float8WeightOnlyConfig"),
    "none": None,
}


def linear_tensors(method: str, n: int, k: int) -> Tensors:
    """Leaf → tensor of one healthy Linear [N, K], as written by the tools (vLLM 0.33.0 facts)."""
    match method:
        case "gptq" | "gptq-8bit" | "auto-round":
            per = 4 if method == "gptq-8bit" else 8
            g = k // 128
            return {
                "qweight": f"I32[{k // per},{n}]",
                "qzeros": f"I32[{g},{n // per}]",
                "scales": f"F16[{g},{n}]",
                "g_idx": f"I32[{k}]",
            }
        case "awq" | "auto-round-awq":
            g = k // 128
            return {
                "qweight": f"I32[{k},{n // 8}]",
                "qzeros": f"I32[{g},{n // 8}]",
                "scales": f"F16[{g},{n}]",
            }
        case "pack" | "pack-asym" | "pack-channel" | "pack-3bit" | "pack-extras" | "w4a8-fp8":
            per, g = (4, 1) if method == "pack-channel" else (8, k // 128)
            words = k * 3 // 32 if method == "pack-3bit" else k // per
            tensors = {
                "weight_packed": f"I32[{n},{words}]",
                "weight_scale": f"BF16[{n},{g}]",
                "weight_shape": "I64[2]",
            }
            if method == "pack-asym":
                tensors["weight_zero_point"] = f"I32[{n // per},{g}]"
            return tensors
        case "int8" | "w4a8-int":
            return {"weight": f"I8[{n},{k}]", "weight_scale": f"BF16[{n},1]"}
        case "fp8-dynamic":
            return {"weight": f"F8_E4M3[{n},{k}]", "weight_scale": f"BF16[{n},1]"}
        case "fp8-static" | "fp8" | "modelopt-fp8" | "quark-fp8":
            return {
                "weight": f"F8_E4M3[{n},{k}]",
                "weight_scale": "F32[]",
                "input_scale": "F32[]",
            }
        case "fp8-block-ct" | "fp8-block" | "auto-round-fp8":
            scale = "weight_scale" if method == "fp8-block-ct" else "weight_scale_inv"
            blocks = f"F32[{-(-n // 128)},{-(-k // 128)}]"
            return {"weight": f"F8_E4M3[{n},{k}]", scale: blocks}
        case "nvfp4" | "nvfp4a16":
            tensors = {
                "weight_packed": f"U8[{n},{k // 2}]",
                "weight_scale": f"F8_E4M3[{n},{k // 16}]",
                "weight_global_scale": "F32[1]",
            }
            if method == "nvfp4":
                tensors["input_global_scale"] = "F32[1]"
            return tensors
        case "mxfp4" | "auto-round-mxfp4":
            return {"weight_packed": f"U8[{n},{k // 2}]", "weight_scale": f"U8[{n},{k // 32}]"}
        case "modelopt-channel" | "quark-channel":
            return {"weight": f"F8_E4M3[{n},{k}]", "weight_scale": f"F32[{n}]"}
        case "modelopt-block":
            blocks = f"F32[{-(-n // 128)},1,{k // 128},1]"
            return {"weight": f"F8_E4M3[{n},{k}]", "weight_scale": blocks}
        case "modelopt-nvfp4" | "modelopt-w4a16":
            tensors = {
                "weight": f"U8[{n},{k // 2}]",
                "weight_scale": f"F8_E4M3[{n},{k // 16}]",
                "weight_scale_2": "F32[]",
            }
            if method == "modelopt-nvfp4":
                tensors["input_scale"] = "F32[]"
            return tensors
        case "quark-int8":
            return {"weight": f"I8[{n},{k}]", "weight_scale": f"F32[{n}]"}
        case "quark-int4":
            g = k // 128
            return {"weight": f"I32[{k},{n // 8}]", "weight_scale": f"F16[{g},{n}]"}
        case "quark-mxfp4":
            return {"weight": f"U8[{n},{k // 2}]", "weight_scale": f"U8[{n},{k // 32}]"}
        case "quark-nvfp4":
            return {
                "weight": f"U8[{n},{k // 2}]",
                "weight_scale": f"F8_E4M3[{n},{k // 16}]",
                "weight_scale_2": "F32[]",
                "input_scale_2": "F32[]",
            }
        case "modelopt-mxfp8" | "auto-round-mxfp8":
            return {"weight": f"F8_E4M3[{n},{k}]", "weight_scale": f"U8[{n},{k // 32}]"}
        case "bnb-nf4":
            return {
                "weight": f"U8[{n * k // 2},1]",
                "weight.absmax": f"F32[{n * k // 64}]",
                "weight.quant_map": "F32[16]",
                "weight.quant_state.bitsandbytes__nf4": "U8[80]",
            }
        case "bnb-double":
            return {
                "weight": f"U8[{n * k // 2},1]",
                "weight.absmax": f"U8[{n * k // 64}]",
                "weight.quant_map": "F32[16]",
                "weight.nested_absmax": f"F32[{-(-n * k // 16384)}]",
                "weight.nested_quant_map": "F32[256]",
                "weight.quant_state.bitsandbytes__nf4": "U8[171]",
            }
        case "bnb-int8":
            return {"weight": f"I8[{n},{k}]", "SCB": f"F32[{n}]", "weight_format": "U8[]"}
        case "torchao-int8" | "torchao-int4" | "torchao-fp8":
            values = "F8_E4M3" if method == "torchao-fp8" else "I8"
            groups = k // 32 if method == "torchao-int4" else 1
            tensors = {
                "_weight_qdata": f"{values}[{n},{k}]",
                "_weight_scale": f"{'BF16' if groups > 1 else 'F32'}[{n},{groups}]",
            }
            if values == "I8":
                tensors["_weight_zero_point"] = f"I8[{n},{groups}]"
            return tensors
        case "none":
            return {"weight": f"BF16[{n},{k}]"}
    raise ValueError(method)


def healthy(method: str) -> tuple[dict[str, Any], Tensors]:
    """(config.json, tensors) of a two-layer Llama that vLLM loads, quantized by `method`."""
    config = copy.deepcopy(LLAMA)
    if DECLARATIONS[method] is not None:
        config["quantization_config"] = copy.deepcopy(DECLARATIONS[method])
    tensors: Tensors = {
        "model.embed_tokens.weight": "BF16[512,256]",
        "model.norm.weight": "BF16[256]",
        "lm_head.weight": "BF16[512,256]",
    }
    for layer in range(2):
        prefix = f"model.layers.{layer}"
        tensors[f"{prefix}.input_layernorm.weight"] = "BF16[256]"
        tensors[f"{prefix}.post_attention_layernorm.weight"] = "BF16[256]"
        for name, (n, k) in LINEARS.items():
            for leaf, text in linear_tensors(method, n, k).items():
                tensors[f"{prefix}.{name}.{leaf}"] = text
    return config, tensors
