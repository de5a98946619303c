"""Files of models for the loopback Hub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.support.build import data_size, header_bytes, healthy
from tests.support.hub_server import Content


def weight_content(tensors: Mapping[str, str]) -> Content:
    """A weight file whose data are zeros."""
    head = header_bytes(tensors)
    return Content(head, len(head) + data_size(tensors))


def split_files(tensors: Mapping[str, str], files: int) -> dict[str, dict[str, str]]:
    """The tensors of each of so many weight files, named as those of a split model are."""
    names = list(tensors)
    step = -(-len(names) // files)
    return {
        f"model-{i + 1:05d}-of-{files:05d}.safetensors": {
            name: tensors[name] for name in names[i * step : (i + 1) * step]
        }
        for i in range(files)
    }


def weight_map(parts: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Tensor → the file that holds it, as an index has it."""
    return {tensor: name for name, tensors in parts.items() for tensor in tensors}


def model_files(
    config: Mapping[str, Any], tensors: Mapping[str, str], files: int = 2
) -> dict[str, bytes | Content]:
    """A model of several weight files, with their index and a model card."""
    parts = split_files(tensors, files)
    return {
        "config.json": json.dumps(config).encode(),
        **{name: weight_content(mine) for name, mine in parts.items()},
        "model.safetensors.index.json": json.dumps({"weight_map": weight_map(parts)}).encode(),
        "README.md": b"---\nlicense: mit\n---\n# A model\n",
    }


def good_model(files: int = 2) -> dict[str, bytes | Content]:
    """A model that passes."""
    config, tensors = healthy("gptq")
    return model_files(config, tensors, files)
