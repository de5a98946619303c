"""Write tiny checkpoints through compressed-tensors' own compressor; run by the witness tests.

    python write_compressed.py FOLDER

One folder per preset scheme of the library: config.json with the block that the library writes,
and model.safetensors with what its compressor makes of random weights. Nothing of quantgate is
imported, so that what is checked is the library's own idea of a checkpoint.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.quantization import (
    QuantizationConfig,
    QuantizationScheme,
    apply_quantization_config,
    preset_name_to_scheme,
)
from safetensors.torch import save_file

PRESETS = (
    *("W4A16", "W4A16_ASYM", "W8A16", "W8A8", "FP8", "FP8_DYNAMIC", "FP8_BLOCK"),
    *("NVFP4", "NVFP4A16", "MXFP4", "MXFP4A16"),
)
HIDDEN, INNER, HEADS, KV_HEADS, HEAD, VOCAB = 256, 512, 4, 2, 64, 512
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


class Norm(torch.nn.Module):
    """A norm of one weight."""

    def __init__(self, size: int = HIDDEN) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))


def group(**children: torch.nn.Module) -> torch.nn.Module:
    """A module with these children."""
    module = torch.nn.Module()
    for name, child in children.items():
        module.add_module(name, child)
    return module


def linear(n: int, k: int) -> torch.nn.Linear:
    """A Linear of n out_features and k in_features without bias."""
    return torch.nn.Linear(k, n, bias=False)


def layer() -> torch.nn.Module:
    """A Llama decoder layer, by its names."""
    q, kv = HEADS * HEAD, KV_HEADS * HEAD
    return group(
        input_layernorm=Norm(),
        post_attention_layernorm=Norm(),
        self_attn=group(
            q_proj=linear(q, HIDDEN),
            k_proj=linear(kv, HIDDEN),
            v_proj=linear(kv, HIDDEN),
            o_proj=linear(HIDDEN, q),
        ),
        mlp=group(
            gate_proj=linear(INNER, HIDDEN),
            up_proj=linear(INNER, HIDDEN),
            down_proj=linear(HIDDEN, INNER),
        ),
    )


def llama() -> torch.nn.Module:
    """The names and sizes of a two-layer Llama."""
    return group(
        model=group(
            embed_tokens=torch.nn.Embedding(VOCAB, HIDDEN),
            layers=torch.nn.ModuleList([layer(), layer()]),
            norm=Norm(),
        ),
        lm_head=linear(VOCAB, HIDDEN),
    ).to(torch.bfloat16)


def write(preset: str, folder: Path) -> None:
    """Quantize random weights by one preset and write what the library makes of them."""
    torch.manual_seed(0)
    model = llama()
    scheme = QuantizationScheme(**preset_name_to_scheme(preset, ["Linear"]).model_dump())
    config = QuantizationConfig(
        config_groups={"group_0": scheme},
        ignore=["lm_head"],
        quantization_status="frozen",
    )
    apply_quantization_config(model, config)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            if name.endswith("scale") and parameter.is_floating_point():
                parameter.data = torch.full_like(parameter.data.float(), 0.01).to(parameter.dtype)
    compressor = ModelCompressor.from_pretrained_model(model)
    assert compressor is not None
    compressor.compress_model(model)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    compressor.update_config(str(folder))
    state = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    for name in PRESETS:
        write(name, Path(sys.argv[1]) / f"compressed_{name}")
