"""Write the example models: small checkpoints with real names and no weights.

Each is a Llama of two layers whose data area is zeros, so it costs a few kilobytes in git. Run
`python -m tools.examples` after a change.
"""

from __future__ import annotations

import json
import struct
from math import prod
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "examples"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 64,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LINEARS = {
    "self_attn.q_proj": (64, 64),
    "self_attn.k_proj": (32, 64),
    "self_attn.v_proj": (32, 64),
    "self_attn.o_proj": (64, 64),
    "mlp.gate_proj": (128, 64),
    "mlp.up_proj": (128, 64),
    "mlp.down_proj": (64, 128),
}
BYTES = {"I32": 4, "I64": 8, "BF16": 2}

Tensors = dict[str, tuple[str, list[int]]]


def packed_int4() -> Tensors:
    """A compressed-tensors W4A16 checkpoint, group size 32."""
    tensors: Tensors = {
        "model.embed_tokens.weight": ("BF16", [64, 64]),
        "model.norm.weight": ("BF16", [64]),
        "lm_head.weight": ("BF16", [64, 64]),
    }
    for layer in range(2):
        prefix = f"model.layers.{layer}"
        tensors[f"{prefix}.input_layernorm.weight"] = ("BF16", [64])
        tensors[f"{prefix}.post_attention_layernorm.weight"] = ("BF16", [64])
        for name, (n, k) in LINEARS.items():
            tensors[f"{prefix}.{name}.weight_packed"] = ("I32", [n, k // 8])
            tensors[f"{prefix}.{name}.weight_scale"] = ("BF16", [n, k // 32])
            tensors[f"{prefix}.{name}.weight_shape"] = ("I64", [2])
    return tensors


def declaration(bits: int, ignore: list[str]) -> dict[str, object]:
    """The quantization block that goes with it."""
    weights = {
        "num_bits": bits,
        "type": "int",
        "strategy": "group",
        "group_size": 32,
        "symmetric": True,
        "dynamic": False,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ignore,
    }


def write(name: str, quantization: dict[str, object], tensors: Tensors) -> None:
    """Write one example."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    config = {**CONFIG, "quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor, (dtype, shape) in tensors.items():
        size = BYTES[dtype] * prod(shape)
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    blob = json.dumps(header, separators=(",", ":")).encode()
    blob += b" " * (-len(blob) % 8)
    data = struct.pack("<Q", len(blob)) + blob + bytes(offset)
    (folder / "model.safetensors").write_bytes(data)


def main() -> None:
    """Write both."""
    write("good", declaration(4, ["lm_head"]), packed_int4())
    broken = packed_int4()
    # Four faults that people really ship: the wrong bits, a scale that was lost, one projection
    # of three kept dense, and an ignore list that names only two of the three.
    del broken["model.layers.1.mlp.down_proj.weight_scale"]
    for shard, rows in (("q_proj", 64), ("k_proj", 32), ("v_proj", 32)):
        stem = f"model.layers.1.self_attn.{shard}"
        for leaf in ("weight_packed", "weight_scale", "weight_shape"):
            del broken[f"{stem}.{leaf}"]
        broken[f"{stem}.weight"] = ("BF16", [rows, 64])
    ignore = ["lm_head", *(f"model.layers.1.self_attn.{s}_proj" for s in "qk")]
    write("broken", declaration(8, ignore), broken)


if __name__ == "__main__":
    main()
