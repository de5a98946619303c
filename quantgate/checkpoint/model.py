"""The facts of one checkpoint, as read: configs, weight files, index, tensors.

Nothing in here judges. Whatever is wrong with a file is kept as a `Defect`, and a rule turns it
into a finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Tensor(NamedTuple):
    """One tensor of a safetensors header.

    `shape` is in elements, also for packed and sub-byte types. `begin` and `end` are byte offsets
    into the file's data area, which starts after the 8-byte length and the header.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int
    file: str

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self.end - self.begin


class DefectKind(StrEnum):
    """What can be wrong with a file itself. Each kind belongs to one rule."""

    MALFORMED = "malformed"  # no length prefix, not UTF-8, not JSON, wrong structure
    DUPLICATE_KEY = "duplicate-key"
    OFFSETS = "offsets"  # gap, overlap, end before begin
    TRUNCATED = "truncated"  # the file ends before the data area does
    TRAILING = "trailing"  # bytes after the last tensor
    BYTE_SIZE = "byte-size"  # dtype and shape do not give the stored number of bytes
    UNKNOWN_DTYPE = "unknown-dtype"
    TOO_LARGE = "too-large"  # header above the limit
    UNREADABLE = "unreadable"  # the operating system refused
    OUTSIDE = "outside"  # a link or name that leads out of the model folder
    NOT_ANSWERED = "not-answered"  # the server it lies on did not deliver it
    NOT_FETCHED = "not-fetched"  # a Git LFS pointer: names a file that is not here


@dataclass(frozen=True, slots=True)
class Defect:
    """Something wrong with a file.

    `strict` marks what the safetensors library accepts and quantgate refuses on purpose.
    """

    kind: DefectKind
    message: str
    tensor: str = ""
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """A parsed safetensors header and what is wrong with it.

    `tensors` are in the order of their offsets, `metadata` is `__metadata__`, `size` is the
    JSON's length in bytes, without the 8-byte prefix.
    """

    tensors: tuple[Tensor, ...]
    metadata: Mapping[str, str]
    size: int
    defects: tuple[Defect, ...] = ()


@dataclass(frozen=True, slots=True)
class WeightFile:
    """One `*.safetensors` file. `header` is None where it could not be parsed at all."""

    name: str
    size: int
    header: Header | None
    defects: tuple[Defect, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One JSON (or YAML) side file: its value, or the reason why there is none.

    `error` continues a sentence that begins with the name ("is not JSON: …"); `kind` tells
    what was not read (unreadable, outside, not-fetched, too-large) from what is malformed.
    """

    name: str
    value: Any
    error: str = ""
    kind: DefectKind | None = None

    @property
    def mapping(self) -> Mapping[str, Any]:
        """The value if it is an object, otherwise an empty one."""
        return self.value if isinstance(self.value, dict) else {}


@dataclass(frozen=True, slots=True)
class Index:
    """`model.safetensors.index.json`: tensor name → file name, or the reason why it is unusable.

    `error` and `kind` are as in `ConfigFile`.
    """

    name: str
    weight_map: Mapping[str, str]
    error: str = ""
    kind: DefectKind | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A model as its files describe it.

    Attributes:
        source: What the user wrote, for messages.
        revision: Commit, where the source has one.
        configs: Side files by name; `config.json` among them if there is one.
        files: Weight files in natural order, including those the index does not name.
        index: The index, if there is one.
        other_files: Names of the other files in the folder (`*.gguf`, `*.bin`, README.md …).
        card: The model card's data, None where README.md has none.
        bytes_read: Bytes that were read to build this.
        requests: Requests that were sent for it, with redirects and repeated tries.
        scalars: Values of lone scales and of `weight_shape` by tensor, None if they were not read.
    """

    source: str
    configs: Mapping[str, ConfigFile]
    files: tuple[WeightFile, ...]
    index: Index | None = None
    other_files: tuple[str, ...] = ()
    revision: str | None = None
    bytes_read: int = 0
    requests: int = 0
    card: ConfigFile | None = None
    scalars: Mapping[str, tuple[float, ...]] | None = None

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The content of config.json, or an empty mapping."""
        found = self.configs.get("config.json")
        return found.mapping if found else {}

    @cached_property
    def consolidated(self) -> tuple[WeightFile, ...]:
        """The `consolidated*.safetensors`, beside which vLLM looks at no other weight file."""
        return tuple(f for f in self.files if f.name.startswith("consolidated"))

    @property
    def mistral(self) -> bool:
        """Whether vLLM reads the model in Mistral's own format, and config.json not at all.

        vLLM 0.32.0, transformers_utils/config.py get_config: params.json beside
        `consolidated*.safetensors`.
        """
        return bool(self.consolidated) and "params.json" in self.configs

    @cached_property
    def used_index(self) -> Index | None:
        """The index if it is the one that vLLM looks for by its name; another changes nothing.

        vLLM 0.33.0, model_loader/default_loader.py (_prepare_weights).
        """
        kind = "consolidated" if self.consolidated else "model"
        index = self.index
        return index if index and index.name == f"{kind}.safetensors.index.json" else None

    @cached_property
    def loaded_files(self) -> tuple[WeightFile, ...]:
        """The weight files that vLLM reads: those the index names, or all without an index.

        vLLM 0.33.0, model_loader/default_loader.py (_prepare_weights) and weight_utils.py
        (filter_duplicate_safetensors_files).
        """
        files = self.consolidated or self.files
        index = self.used_index
        if index is None or index.error:
            return files
        named = set(index.weight_map.values())
        return tuple(f for f in files if f.name in named)

    @cached_property
    def complete(self) -> bool:
        """Whether all weight files were delivered that vLLM reads; a broken one is.

        What is missing in an incomplete one may be in a file that was not read, or that the index
        names and is not there.
        """
        index = self.used_index
        if index is not None and not set(index.weight_map.values()) <= {f.name for f in self.files}:
            return False
        unread = (DefectKind.UNREADABLE, DefectKind.NOT_ANSWERED, DefectKind.NOT_FETCHED)
        return not any(
            d.kind in unread or (d.kind is DefectKind.TOO_LARGE and d.strict)
            for f in self.loaded_files
            for d in f.defects
        )

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Tensors of the files that vLLM reads; of equal names the last file's wins, as in vLLM."""
        return {t.name: t for f in self.loaded_files if f.header for t in f.header.tensors}

    @cached_property
    def bytes_total(self) -> int:
        """Size of all weight files in bytes."""
        return sum(f.size for f in self.files)
