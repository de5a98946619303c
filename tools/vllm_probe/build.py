"""Build every architecture that transformers has a config for, and write down what came out.

Run by vLLM's Python: `python -m tools.vllm_probe.build OUT.jsonl [ARCHITECTURE...]`.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.vllm_probe.configs import VALUES, probing, switches, text_part
from tools.vllm_probe.simulated import build_model

_TOWERS = ("vision", "visual", "audio", "speech", "image", "mtp", "draft", "eagle")

# A block without a skip list: what stays unquantized does so by the code of its class.
_EVERY_LINEAR = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True},
            "input_activations": {
                "num_bits": 8,
                "type": "int",
                "strategy": "token",
                "symmetric": True,
                "dynamic": True,
            },
        }
    },
}


def describe(model: Any) -> dict[str, Any]:
    """Name → what a module is: kind, sizes of its outputs and input, other parameters' shapes."""
    from vllm.model_executor.layers.linear import (  # noqa: PLC0415
        LinearBase,
        QKVParallelLinear,
        UnquantizedLinearMethod,
    )
    from vllm.model_executor.layers.vocab_parallel_embedding import (  # noqa: PLC0415
        ParallelLMHead,
        VocabParallelEmbedding,
    )

    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        if any(t in name for t in _TOWERS):
            continue
        if isinstance(module, VocabParallelEmbedding):
            kind = "head" if isinstance(module, ParallelLMHead) else "embedding"
            found[name] = {"kind": kind, "out": [module.org_vocab_size], "in": module.embedding_dim}
        elif isinstance(module, LinearBase):
            if isinstance(module, QKVParallelLinear):
                value = getattr(module, "v_head_size", module.head_size)
                kv = module.total_num_kv_heads
                sizes = [
                    module.total_num_heads * module.head_size,
                    kv * module.head_size,
                    kv * value,
                ]
            else:
                sizes = list(getattr(module, "output_sizes", None) or [module.output_size])
            found[name] = {
                "kind": "linear",
                "out": sizes,
                "in": module.input_size,
                "bias": getattr(module, "bias", None) is not None,
                "dense": isinstance(module.quant_method, UnquantizedLinearMethod),
            }
        else:
            shapes = {n: list(p.shape) for n, p in module.named_parameters(recurse=False)}
            if shapes:
                found[name] = {"kind": "other", "shapes": shapes}
    return found


def probe(architecture: str, default: dict[str, Any]) -> dict[str, Any]:
    """Everything that is asked of one architecture; `error` where it could not be built."""
    row: dict[str, Any] = {
        "architecture": architecture,
        "builds": [],
        "defaults": [],
        "switched": [],
    }

    def build(config: dict[str, Any]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(config))
            return describe(build_model(Path(folder)))

    try:
        for values in VALUES:
            config, given = probing(architecture, copy.deepcopy(default), values)
            row["builds"].append({"given": given, "modules": build(config)})
    except Exception as error:
        return {**row, "error": f"{type(error).__name__}: {str(error)[:300]}"}
    config, _ = probing(architecture, copy.deepcopy(default), VALUES[0])
    row["quantized"] = _try(build, config | {"quantization_config": _EVERY_LINEAR})
    row["switches"] = {key: value for _, key, value, _ in switches(config)}
    for key in ("head_dim", "num_key_value_heads"):
        for values in VALUES:
            config, given = probing(architecture, copy.deepcopy(default), values)
            if text_part(config).pop(key, None) is not None:
                row["defaults"].append([key, given, _try(build, config)])
    for inner, key, _, other in list(switches(config)):
        config, _ = probing(architecture, copy.deepcopy(default), VALUES[0])
        (text_part(config) if inner else config)[key] = other
        row["switched"].append([key, _try(build, config)])
    return row


def _try(build: Any, config: dict[str, Any]) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = build(config)
    except Exception:
        return None
    return found


def architectures() -> list[tuple[str, dict[str, Any]]]:
    """(architecture, default config) of all that both transformers and vLLM know."""
    from transformers import CONFIG_MAPPING  # noqa: PLC0415
    from transformers.models.auto import modeling_auto as auto  # noqa: PLC0415
    from vllm.model_executor.models.registry import ModelRegistry  # noqa: PLC0415

    tables = (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    )
    found: dict[str, str] = {}
    for table in tables:
        for model_type, names in table.items():
            for name in [names] if isinstance(names, str) else names:
                if name in ModelRegistry.models and model_type in CONFIG_MAPPING:
                    found.setdefault(name, model_type)
    rows = []
    for name, model_type in sorted(found.items()):
        try:
            rows.append((name, CONFIG_MAPPING[model_type]().to_dict() | {"model_type": model_type}))
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr)
    return rows


def main() -> None:
    """Write a line for each architecture."""
    path, *wanted = sys.argv[1:]
    with Path(path).open("w", encoding="utf-8") as out:
        for name, default in architectures():
            if not wanted or name in wanted:
                row = probe(name, default)
                print(name, row.get("error", "built"), file=sys.stderr)
                out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
