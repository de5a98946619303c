"""Header archives of large models, built from their published sizes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.archive import write_archive
from quantgate.checkpoint.raw import RawCheckpoint, RawDocument, RawFile
from tests.support.build import data_size, header_bytes
from tests.support.declarations import DECLARATIONS
from tests.support.linears import linear_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

# Qwen/Qwen3-30B-A3B, config.json
QWEN3_30B_A3B: dict[str, Any] = {
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
# deepseek-ai/DeepSeek-V3, config.json; without the draft layer
DEEPSEEK_V3: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "tie_word_embeddings": False,
}


def _linear(method: str, name: str, n: int, k: int) -> dict[str, str]:
    leaves = linear_tensors(method, n, k)
    return {f"{name}.{leaf}": tensor for leaf, tensor in leaves.items()}


def _mlp(method: str, name: str, hidden: int, inner: int) -> dict[str, str]:
    return {
        **_linear(method, f"{name}.gate_proj", inner, hidden),
        **_linear(method, f"{name}.up_proj", inner, hidden),
        **_linear(method, f"{name}.down_proj", hidden, inner),
    }


def _outer(vocab: int, hidden: int) -> dict[str, str]:
    return {
        "model.embed_tokens.weight": f"BF16[{vocab},{hidden}]",
        "model.norm.weight": f"BF16[{hidden}]",
        "lm_head.weight": f"BF16[{vocab},{hidden}]",
    }


def qwen3_moe() -> tuple[dict[str, Any], dict[str, str]]:
    """Qwen3-30B-A3B as compressed-tensors W4A16: its config and 56,000 tensors."""
    tensors = _outer(151936, 2048)
    for i in range(48):
        layer = f"model.layers.{i}"
        tensors[f"{layer}.input_layernorm.weight"] = "BF16[2048]"
        tensors[f"{layer}.post_attention_layernorm.weight"] = "BF16[2048]"
        tensors[f"{layer}.self_attn.q_norm.weight"] = "BF16[128]"
        tensors[f"{layer}.self_attn.k_norm.weight"] = "BF16[128]"
        tensors[f"{layer}.mlp.gate.weight"] = "BF16[128,2048]"
        for name, n, k in (
            ("q", 4096, 2048),
            ("k", 512, 2048),
            ("v", 512, 2048),
            ("o", 2048, 4096),
        ):
            tensors.update(_linear("pack", f"{layer}.self_attn.{name}_proj", n, k))
        for e in range(128):
            tensors.update(_mlp("pack", f"{layer}.mlp.experts.{e}", 2048, 768))
    declaration = {**DECLARATIONS["pack"], "ignore": ["lm_head", "re:.*mlp.gate$"]}
    return {**QWEN3_30B_A3B, "quantization_config": declaration}, tensors


def deepseek_v3(moe_layers: int = 58) -> tuple[dict[str, Any], dict[str, str]]:
    """DeepSeek-V3 as NVFP4 with dense attention: its config and 3,080 tensors per MoE layer."""
    tensors = _outer(129280, 7168)
    attention = {
        "q_a_proj": (1536, 7168),
        "q_b_proj": (24576, 1536),
        "kv_a_proj_with_mqa": (576, 7168),
        "kv_b_proj": (32768, 512),
        "o_proj": (7168, 16384),
    }
    for i in range(3 + moe_layers):
        layer = f"model.layers.{i}"
        tensors[f"{layer}.input_layernorm.weight"] = "BF16[7168]"
        tensors[f"{layer}.post_attention_layernorm.weight"] = "BF16[7168]"
        tensors[f"{layer}.self_attn.q_a_layernorm.weight"] = "BF16[1536]"
        tensors[f"{layer}.self_attn.kv_a_layernorm.weight"] = "BF16[512]"
        for name, (n, k) in attention.items():
            tensors[f"{layer}.self_attn.{name}.weight"] = f"BF16[{n},{k}]"
        if i < 3:
            tensors.update(_mlp("nvfp4", f"{layer}.mlp", 7168, 18432))
            continue
        tensors[f"{layer}.mlp.gate.weight"] = "BF16[256,7168]"
        tensors[f"{layer}.mlp.gate.e_score_correction_bias"] = "F32[256]"
        tensors.update(_mlp("nvfp4", f"{layer}.mlp.shared_experts", 7168, 2048))
        for e in range(256):
            tensors.update(_mlp("nvfp4", f"{layer}.mlp.experts.{e}", 7168, 2048))
    ignore = ["lm_head", "re:.*mlp.gate$", "re:.*self_attn.*"]
    declaration = {**DECLARATIONS["nvfp4"], "ignore": ignore}
    config = {**DEEPSEEK_V3, "num_hidden_layers": 3 + moe_layers}
    return {**config, "quantization_config": declaration}, tensors


def write_model(
    path: Path, config: Mapping[str, Any], tensors: Mapping[str, str], files: int = 4
) -> None:
    """Write a header archive of several weight files with an index."""
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
    index = RawDocument(
        "model.safetensors.index.json", json.dumps({"weight_map": weight_map}).encode()
    )
    raw = RawCheckpoint(
        source=path.name,
        configs=(RawDocument("config.json", json.dumps(config).encode()),),
        index=index,
        files=tuple(parts),
    )
    write_archive(raw, path)


def main(folder: Path) -> None:
    """Write every archive into a folder and print a line `file tensors` for each."""
    models = {"qwen3.json.gz": qwen3_moe()}
    for layers in (3, 16, 58):
        models[f"deepseek-{layers}.json.gz"] = deepseek_v3(layers)
    for name, (config, tensors) in models.items():
        write_model(folder / name, config, tensors, files=4 if "qwen" in name else 40)
        print(name, len(tensors))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
