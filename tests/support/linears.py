"""What the tools store for one healthy Linear, by the name of a way to quantize."""

from __future__ import annotations


def linear_tensors(method: str, n: int, k: int) -> dict[str, str]:
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
