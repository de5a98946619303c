"""What the headers of a torchao checkpoint say about its tensors.

torchao takes a quantized weight apart into plain tensors (`X._weight_qdata`, `X._weight_scale`) and
writes what it was into the file's metadata: `tensor_names`, and for each name its class, the
class's other fields and the names of its parts. vLLM puts them together again, file by file; a part
may come with a later file. Source: torchao 0.18.0, prototype/safetensors, and vLLM 0.33.0,
model_loader/weight_utils.py safetensors_weights_iterator.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quantgate.quantization.scheme import Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from quantgate.checkpoint.model import WeightFile
    from quantgate.quantization.scheme import Scheme

PLAIN = "Tensor"
# prototype/safetensors/safetensors_utils.py ALLOWED_TENSORS_SUBCLASSES
CLASSES = frozenset(
    {
        *("Float8Tensor", "Int4Tensor", "Int4TilePackedTo4dTensor", "IntxUnpackedToInt8Tensor"),
        *("Int8Tensor", "Int4PlainInt32Tensor", "MXTensor", "NVFP4Tensor"),
    }
)


# Classes that say in their entry what becomes of the inputs.
_WITH_INPUTS = frozenset({"Float8Tensor", "IntxUnpackedToInt8Tensor", "Int8Tensor"})


@dataclass(frozen=True, slots=True)
class Entry:
    """What one name is: a class, its fields that are no tensors, and the names of its parts."""

    cls: str
    data: Mapping[str, Any] = field(repr=False)
    parts: tuple[str, ...]

    @property
    def block(self) -> tuple[int, ...]:
        """Its `block_size`, empty where it has none."""
        value = self.data.get("block_size")
        fits = isinstance(value, list) and all(type(v) is int for v in value)
        return tuple(value) if fits and value else ()

    @property
    def dtype(self) -> str:
        """Its `target_dtype` (`int4`), empty where it has none."""
        value = self.data.get("target_dtype")
        word = value.get("_data") if isinstance(value, dict) else None
        return word if isinstance(word, str) else ""

    @property
    def inputs(self) -> bool:
        """Whether it quantizes its inputs."""
        keys = ("act_quant_kwargs", "activation_quantization")
        return any(self.data.get(k) is not None for k in keys)


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """The metadata of one file.

    Attributes:
        error: What vLLM stops with, empty if it does not.
        tensor: The name that the error is about, empty for the file as a whole.
        entries: Name → what it is, of the names that could be read.
    """

    entries: Mapping[str, Entry]
    error: str = ""
    tensor: str = ""


def read_metadata(metadata: Mapping[str, str]) -> FileMetadata:
    """Read one file's `__metadata__` as torchao does."""
    if "tensor_names" not in metadata:
        error = "ValueError: No tensors found" if metadata else "'NoneType' object is not a mapping"
        return FileMetadata({}, error)
    names = _json(metadata["tensor_names"])
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        return FileMetadata({}, "tensor_names is no list of names")
    entries: dict[str, Entry] = {}
    for name in names:
        text = metadata.get(name)
        found = _json(text) if text is not None else None
        if not isinstance(found, dict):
            error = "TypeError: the JSON object must be str, bytes or bytearray, not NoneType"
            return FileMetadata(entries, error if text is None else "its entry is no object", name)
        entry = _entry(found)
        if entry.cls not in CLASSES | {PLAIN}:
            return FileMetadata(entries, "ValueError: Unsupported tensor type", name)
        entries[name] = entry
    return FileMetadata(entries)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _entry(found: Mapping[str, Any]) -> Entry:
    cls, data, parts = found.get("_type"), found.get("_data"), found.get("_tensor_data_names")
    return Entry(
        cls if isinstance(cls, str) else "",
        data if isinstance(data, dict) else {},
        tuple(p for p in parts if isinstance(p, str)) if isinstance(parts, list) else (),
    )


@dataclass(frozen=True, slots=True)
class Loss:
    """A tensor that vLLM passes over without a word."""

    tensor: str
    expected: str
    found: str


def read_files(files: Iterable[WeightFile]) -> dict[str, FileMetadata]:
    """File name → its metadata, of the files that have a readable header."""
    return {f.name: read_metadata(f.header.metadata) for f in files if f.header is not None}


def entries_of(files: Mapping[str, FileMetadata]) -> dict[str, Entry]:
    """The entries of all files; of equal names the last file's wins."""
    return {name: entry for file in files.values() for name, entry in file.entries.items()}


def losses(entries: Mapping[str, Entry], tensors: Iterable[str]) -> list[Loss]:
    """Names that are never put together, and tensors that belong to none.

    A name is put together when as many tensors begin with its prefix as it has parts.
    """
    stored = dict.fromkeys(tensors)
    owner: dict[str, list[str]] = {}
    for tensor in stored:
        module, _, leaf = tensor.rpartition(".")
        parameter, _, part = leaf.removeprefix("_").partition("_")
        if leaf.startswith("_") and part:
            owner.setdefault(f"{module}.{parameter}", []).append(part)
    found = []
    for name, entry in entries.items():
        if entry.cls == PLAIN:
            continue
        parts = owner.get(name, [])
        if parts and sorted(parts) != sorted(entry.parts):
            found.append(Loss(name, ", ".join(sorted(entry.parts)), ", ".join(sorted(parts))))
    listed = entries.keys()
    for tensor in stored:
        module, _, leaf = tensor.rpartition(".")
        whole = f"{module}.{leaf.removeprefix('_').partition('_')[0]}"
        if tensor not in listed and (not leaf.startswith("_") or whole not in listed):
            found.append(Loss(tensor, "named in tensor_names", "not named"))
    return found


def contradictions(entry: Entry, scheme: Scheme, columns: int) -> Iterator[tuple[str, str, str]]:
    """(what, declared, stored) where an entry is not what a scheme makes of a weight.

    `columns` is K as far as it is known, else the length of a stored row.
    """
    if entry.cls == PLAIN:
        return  # a dense weight: QG416
    if entry.cls != scheme.storage:
        yield "class of tensor", scheme.storage, entry.cls
        return
    wanted = f"int{scheme.bits}"
    if entry.dtype and entry.dtype != wanted:
        yield "type of values", wanted, entry.dtype
    if scheme.strategy is Strategy.GROUP:
        block: tuple[int, ...] = (1, scheme.group_size or 0)
    else:
        block = (1, columns)
    settled = scheme.strategy in {Strategy.GROUP, Strategy.CHANNEL}
    if settled and len(entry.block) == 2 and entry.block != block:
        yield "block_size", str(list(block)), str(list(entry.block))
    inputs = scheme.activations is not None
    if entry.inputs != inputs and entry.cls in _WITH_INPUTS:
        words = {True: "quantized inputs", False: "weights only"}
        yield "treatment of the inputs", words[inputs], words[entry.inputs]
