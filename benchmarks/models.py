"""Header archives of large models, built from their published sizes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from quantgate.checkpoint.archive import write_archive
from quantgate.checkpoint.raw import RawCheckpoint, RawDocument, RawFile
from tests.support.build import data_size, header_bytes

# Qwen/Qwen3-30B-A3B, config.json
QWEN3_30B_A3B = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}
W4A16 = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 4,
                "type": "int",
                "strategy": "group",
                "group_size": 128,
                "symmetric": True,
                "dynamic": False,
            },
        }
    },
    "ignore": ["lm_head", "re:.*mlp.gate$"],
}


def packed(name: str, n: int, k: int) -> dict[str, str]:
    """Tensors of one W4A16 Linear."""
    return {
        f"{name}.weight_packed": f"I32[{n},{k // 8}]",
        f"{name}.weight_scale": f"BF16[{n},{k // 128}]",
        f"{name}.weight_shape": "I64[2]",
    }


def qwen3_moe() -> dict[str, str]:
    """All 56,000 tensors of Qwen3-30B-A3B as compressed-tensors W4A16."""
    c = QWEN3_30B_A3B
    hidden, heads, head = 2048, 32, 128
    tensors = {
        "model.embed_tokens.weight": "BF16[151936,2048]",
        "model.norm.weight": "BF16[2048]",
        "lm_head.weight": "BF16[151936,2048]",
    }
    for i in range(int(str(c["num_hidden_layers"]))):
        layer = f"model.layers.{i}"
        tensors[f"{layer}.input_layernorm.weight"] = "BF16[2048]"
        tensors[f"{layer}.post_attention_layernorm.weight"] = "BF16[2048]"
        tensors[f"{layer}.self_attn.q_norm.weight"] = "BF16[128]"
        tensors[f"{layer}.self_attn.k_norm.weight"] = "BF16[128]"
        tensors[f"{layer}.mlp.gate.weight"] = "BF16[128,2048]"
        tensors.update(packed(f"{layer}.self_attn.q_proj", heads * head, hidden))
        tensors.update(packed(f"{layer}.self_attn.k_proj", 4 * head, hidden))
        tensors.update(packed(f"{layer}.self_attn.v_proj", 4 * head, hidden))
        tensors.update(packed(f"{layer}.self_attn.o_proj", hidden, heads * head))
        for e in range(128):
            expert = f"{layer}.mlp.experts.{e}"
            tensors.update(packed(f"{expert}.gate_proj", 768, hidden))
            tensors.update(packed(f"{expert}.up_proj", 768, hidden))
            tensors.update(packed(f"{expert}.down_proj", hidden, 768))
    return tensors


def write_qwen3_moe(path: Path, files: int = 4) -> int:
    """Write it as a header archive of several weight files; the number of tensors."""
    tensors = qwen3_moe()
    names = list(tensors)
    step = -(-len(names) // files)
    parts: list[RawFile] = []
    weight_map: dict[str, str] = {}
    for i in range(files):
        mine = {n: tensors[n] for n in names[i * step : (i + 1) * step]}
        name = f"model-{i + 1:05d}-of-{files:05d}.safetensors"
        weight_map.update(dict.fromkeys(mine, name))
        head = header_bytes(mine)
        parts.append(RawFile(name, len(head) + data_size(mine), head[8:]))
    config = {**QWEN3_30B_A3B, "quantization_config": W4A16}
    index = RawDocument(
        "model.safetensors.index.json", json.dumps({"weight_map": weight_map}).encode()
    )
    raw = RawCheckpoint(
        source="Qwen3-30B-A3B-W4A16",
        configs=(RawDocument("config.json", json.dumps(config).encode()),),
        index=index,
        files=tuple(parts),
    )
    write_archive(raw, path)
    return len(tensors)


if __name__ == "__main__":
    print(write_qwen3_moe(Path(sys.argv[1])))
