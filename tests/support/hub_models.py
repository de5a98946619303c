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


def model_files(
    config: Mapping[str, Any], tensors: Mapping[str, str], files: int = 2
) -> dict[str, bytes | Content]:
    """A model of several weight files, with their index and a model card."""
    names = list(tensors)
    step = -(-len(names) // files)
    found: dict[str, bytes | Content] = {"config.json": json.dumps(config).encode()}
    weight_map: dict[str, str] = {}
    for i in range(files):
        mine = {n: tensors[n] for n in names[i * step : (i + 1) * step]}
        name = f"model-{i + 1:05d}-of-{files:05d}.safetensors"
        weight_map.update(dict.fromkeys(mine, name))
        found[name] = weight_content(mine)
    found["model.safetensors.index.json"] = json.dumps({"weight_map": weight_map}).encode()
    found["README.md"] = b"---\nlicense: mit\n---\n# A model\n"
    return found


def good_model(files: int = 2) -> dict[str, bytes | Content]:
    """A model that passes."""
    config, tensors = healthy("gptq")
    return model_files(config, tensors, files)
