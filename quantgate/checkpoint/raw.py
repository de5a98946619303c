"""What a source delivers: bytes, not yet understood. `assemble` turns them into a `Checkpoint`.

Every source (folder, header archive, the Hub) ends here, so that the same bytes give the
same checkpoint wherever they come from.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quantgate.checkpoint.card import CARD_NAME, parse_card
from quantgate.checkpoint.documents import parse_index, parse_json, parse_yaml
from quantgate.checkpoint.header import parse_header
from quantgate.checkpoint.model import (
    Checkpoint,
    ConfigFile,
    Defect,
    DefectKind,
    Index,
    WeightFile,
)
from quantgate.checkpoint.numbers import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from quantgate.checkpoint.pointer import Pointer

CONFIG_NAMES = frozenset(
    {
        "config.json",
        "hf_quant_config.json",
        "params.json",
        "quant_config.json",
        "quantization_config.json",
        "quantize_config.json",
        "recipe.yaml",
    }
)
"""Side files that say something about the quantization."""

WEIGHT_SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"

MAX_CONFIG = 32_000_000
"""Largest side file in bytes that is read; real ones stay below 1 MB."""

MAX_INDEX = 100_000_000
"""Largest index in bytes that is read; 178,000 tensors take 20 MB."""

MAX_HEADERS = 256_000_000
"""Bytes of headers that are read of one model; 178,000 tensors take 23 MB."""


class SourceError(Exception):
    """The source itself cannot be read. The message is one sentence for the user."""


class UnreadError(Exception):
    """Bytes that could not be had.

    The message continues a sentence that begins with the file's name. `status` is the answer's,
    0 without one; `code` is the Hub's own (`GatedRepo`).
    """

    def __init__(self, message: str, *, status: int = 0, code: str = "", text: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A side file or index: its bytes, or why they could not be read."""

    name: str
    content: bytes | Defect


@dataclass(frozen=True, slots=True)
class RawFile:
    """A weight file: its size in bytes and the JSON of its header, or why that is missing."""

    name: str
    size: int
    header: bytes | Defect


@dataclass(frozen=True, slots=True)
class RawCheckpoint:
    """All that was read of one model. The fields are those of `Checkpoint`.

    The head of README.md, if it is a model card, stands among the configs. `scalars` are the bytes
    of tensors (`checkpoint/scalars.py`), None where they were not asked for. `parsed` is what a
    source has parsed while it waited for more. `pointers` are the Git LFS pointers in a folder, by
    the names of the files that they stand for.
    """

    source: str
    configs: tuple[RawDocument, ...] = ()
    files: tuple[RawFile, ...] = ()
    index: RawDocument | None = None
    other_files: tuple[str, ...] = ()
    revision: str | None = None
    bytes_read: int = 0
    requests: int = 0
    scalars: Mapping[str, bytes] | None = None
    parsed: Mapping[RawFile | RawDocument, WeightFile | Index] = field(
        default_factory=dict, compare=False, repr=False
    )
    pointers: Mapping[str, Pointer] = field(default_factory=dict, compare=False, repr=False)

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Files that a server did not deliver: another try may give more."""
        documents = (*self.configs, *([self.index] if self.index else []))
        found = [(d.name, d.content) for d in documents] + [(f.name, f.header) for f in self.files]
        return tuple(
            name
            for name, content in found
            if isinstance(content, Defect) and content.kind is DefectKind.NOT_ANSWERED
        )


def assemble(raw: RawCheckpoint) -> Checkpoint:
    """Parse what was read. Never raises for what a model contains."""
    with collector_paused():
        # First, since the headers take their names from it.
        index = None if raw.index is None else _parsed_index(raw, raw.index)
        ordered = sorted(raw.files, key=lambda f: natural_key(f.name))
        files = tuple(_parsed_weights(raw, f) for f in ordered)
        return Checkpoint(
            source=raw.source,
            configs={d.name: _config(d) for d in raw.configs if d.name != CARD_NAME},
            files=files,
            index=index,
            other_files=tuple(sorted(raw.other_files)),
            revision=raw.revision,
            bytes_read=raw.bytes_read,
            requests=raw.requests,
            card=_card(raw.configs),
            scalars=None if raw.scalars is None else _scalars(files, raw.scalars),
        )


def natural_key(name: str) -> tuple[str | int, ...]:
    """Sort key that puts `model-2` before `model-10`, as vLLM reads them.

    vLLM 0.33.0, model_loader/weight_utils.py, _natural_sort_key.
    """
    return tuple(int(p) if i % 2 else p for i, p in enumerate(re.split(r"([0-9]+)", name)))


def choose_index(names: Iterable[str]) -> str | None:
    """Which of the files is the index: the one vLLM looks for, or else the only one there is.

    vLLM looks for `consolidated.safetensors.index.json` beside `consolidated*.safetensors` and
    for `model.safetensors.index.json` otherwise (0.33.0, model_loader/default_loader.py).
    """
    names = list(names)
    found = [n for n in names if n.endswith(INDEX_SUFFIX)]
    consolidated = any(n.startswith("consolidated") and n.endswith(WEIGHT_SUFFIX) for n in names)
    wanted = ("consolidated" if consolidated else "model") + INDEX_SUFFIX
    if wanted in found:
        return wanted
    return found[0] if len(found) == 1 else None


def _card(documents: Iterable[RawDocument]) -> ConfigFile | None:
    """The model card; one that could not be read is none, since nothing depends on it."""
    content = next((d.content for d in documents if d.name == CARD_NAME), b"")
    return None if isinstance(content, Defect) else parse_card(content)


def _config(document: RawDocument) -> ConfigFile:
    if isinstance(document.content, Defect):
        defect = document.content
        return ConfigFile(document.name, None, defect.message, defect.kind)
    parse = parse_yaml if document.name.endswith((".yaml", ".yml")) else parse_json
    value = parse(document.content)
    if isinstance(value, Defect):
        return ConfigFile(document.name, None, value.message, value.kind)
    return ConfigFile(document.name, value)


def _parsed_index(raw: RawCheckpoint, document: RawDocument) -> Index:
    found = raw.parsed.get(document)
    return found if isinstance(found, Index) else index_of(document)


def _parsed_weights(raw: RawCheckpoint, file: RawFile) -> WeightFile:
    found = raw.parsed.get(file)
    return found if isinstance(found, WeightFile) else weights_of(file)


def index_of(document: RawDocument) -> Index:
    """The index, parsed."""
    content = document.content
    weight_map = content if isinstance(content, Defect) else parse_index(content)
    if isinstance(weight_map, Defect):
        return Index(document.name, {}, weight_map.message, weight_map.kind)
    return Index(document.name, weight_map)


def _scalars(
    files: Iterable[WeightFile], content: Mapping[str, bytes]
) -> Mapping[str, tuple[float, ...]]:
    tensors = (t for f in files if f.header for t in f.header.tensors if t.name in content)
    return {t.name: decode(t.dtype, content[t.name]) for t in tensors}


def weights_of(raw: RawFile) -> WeightFile:
    """The weight file with its header parsed."""
    blob = raw.header
    if isinstance(blob, Defect):
        return WeightFile(raw.name, raw.size, None, (blob,))
    header = parse_header(blob, file=raw.name, file_size=raw.size)
    if isinstance(header, Defect):
        return WeightFile(raw.name, raw.size, None, (header,))
    return WeightFile(raw.name, raw.size, header)


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection while hundreds of thousands of objects are made."""
    # Half a million new objects without a cycle among them: the garbage collector would look
    # through them again and again, which takes as long as all the parsing.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
