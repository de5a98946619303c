"""Checkpoints in memory, for tests that need no folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.raw import RawCheckpoint, RawDocument, RawFile, assemble
from quantgate.model import Model
from quantgate.targets import Target
from tests.support.build import data_size, header_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.checkpoint import Checkpoint


def checkpoint_of(
    config: Any, tensors: Mapping[str, str], sides: Mapping[str, Any] | None = None
) -> Checkpoint:
    """A checkpoint with one weight file."""
    head = header_bytes(tensors)
    documents = {"config.json": config, **(sides or {})}
    return assemble(
        RawCheckpoint(
            source="memory",
            configs=tuple(RawDocument(n, json.dumps(v).encode()) for n, v in documents.items()),
            files=(RawFile("model.safetensors", len(head) + data_size(tensors), head[8:]),),
        )
    )


def checkpoint_of_files(
    source: str, documents: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]
) -> Checkpoint:
    """A checkpoint of JSON documents and weight files of {name: [dtype, shape]}."""
    parts = []
    for name, rows in files.items():
        tensors = {n: f"{dtype}{shape}" for n, (dtype, shape) in rows.items()}
        head = header_bytes(tensors)
        parts.append(RawFile(name, len(head) + data_size(tensors), head[8:]))
    blobs = {n: json.dumps(value).encode() for n, value in documents.items()}
    index = blobs.pop("model.safetensors.index.json", None)
    return assemble(
        RawCheckpoint(
            source=source,
            configs=tuple(RawDocument(n, blob) for n, blob in blobs.items()),
            index=RawDocument("model.safetensors.index.json", index) if index else None,
            files=tuple(parts),
        )
    )


def model_of(config: Any, tensors: Mapping[str, str], target: str = "") -> Model:
    """What rules see of such a checkpoint."""
    return Model(checkpoint_of(config, tensors), Target.parse(target))
