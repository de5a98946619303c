"""Quantization blocks as the tools write them, by the name of a way to quantize."""

from __future__ import annotations

from typing import Any


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
