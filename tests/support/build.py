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

from tests.support.declarations import DECLARATIONS
from tests.support.linears import linear_tensors

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
