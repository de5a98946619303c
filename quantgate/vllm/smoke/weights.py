"""A model folder with its weights: the user's own, or one fetched from the Hub."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.raw import WEIGHT_SUFFIX
from quantgate.checkpoint.sources import read_source
from quantgate.report.words import size
from quantgate.vllm.smoke.settings import MAX_MODEL_LEN

if TYPE_CHECKING:
    from quantgate.checkpoint.raw import RawCheckpoint

# Whatever else a repository holds (code, pickles, GGUF) is not fetched.
WANTED = ("*.safetensors", "*.json", "*.model", "*.txt", "*.tiktoken", "*.jinja")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt")
_ROOM = 1.02
"""What a download may take beyond the weights."""


class NoWeights(Exception):  # noqa: N818  told as the reason of an unknown outcome
    """There is nothing to load; the message says why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A folder that vLLM can load from.

    Attributes:
        folder: Its path.
        has_tokenizer: Whether it has one; without it, tokens are given as numbers.
        max_model_len: Tokens of context that the model has at least, at most `MAX_MODEL_LEN`.
    """

    folder: Path
    has_tokenizer: bool
    max_model_len: int


def prepare(source: str, scratch: Path) -> Prepared:
    """The folder of a source; what is fetched goes beneath `scratch`, which exists.

    Raises:
        NoWeights: Weights are missing, or do not fit on the disk.
        SourceError: There is no model to read.
    """
    raw = read_source(source, lfs=Lfs.NEVER)  # weights are loaded, so they have to be here
    _complete(raw)
    path = Path(source)
    if path.is_file():
        raise NoWeights("a header archive has no weights, and only a model with weights can speak")
    folder = path.resolve() if path.is_dir() else _fetch(raw, scratch)
    return Prepared(folder, has_tokenizer(folder), _context(folder))


def has_tokenizer(folder: Path) -> bool:
    """Whether there is a file that a tokenizer is made of."""
    return any((folder / n).is_file() for n in _TOKENIZERS) or any(folder.glob("*.tiktoken"))


def _complete(raw: RawCheckpoint) -> None:
    if not any(f.name.endswith(WEIGHT_SUFFIX) for f in raw.files):
        raise NoWeights("it has no safetensors files, and no others are loaded")
    for file in raw.files:
        if isinstance(file.header, Defect) and file.header.kind is DefectKind.NOT_FETCHED:
            raise NoWeights(f"{file.name} is a Git LFS pointer, its file was not fetched")


def _context(folder: Path) -> int:
    """What the config says of positions, as far as it says it."""
    try:
        config: Any = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return MAX_MODEL_LEN
    known = [MAX_MODEL_LEN]
    for part in (config, config.get("text_config") if isinstance(config, dict) else None):
        if isinstance(part, dict):
            positions = part.get("max_position_embeddings")
            if isinstance(positions, int) and positions > 0:
                known.append(positions)
    return min(known)


def _fetch(raw: RawCheckpoint, scratch: Path) -> Path:
    """Download one commit of a repository, if the disk holds it."""
    # The client of the Hub is slow to import, and seldom needed.
    from huggingface_hub import hf_hub_download  # noqa: PLC0415

    from quantgate.checkpoint.hub import parse_source  # noqa: PLC0415

    repository = parse_source(raw.source)
    needed, free = sum(f.size for f in raw.files), shutil.disk_usage(scratch).free
    if needed * _ROOM > free:
        raise NoWeights(f"it takes {size(needed)}, and {size(free)} are free on the disk")
    folder = scratch / "model"
    try:
        for name in _wanted(raw):
            hf_hub_download(
                repository.id,
                name,
                revision=raw.revision,
                endpoint=repository.endpoint,
                local_dir=folder,
            )
    except Exception as error:  # the network, the Hub or the disk: none says anything of the model
        raise NoWeights(f"it cannot be fetched: {type(error).__name__}: {error}") from None
    return folder


def _wanted(raw: RawCheckpoint) -> list[str]:
    """The files that vLLM may read, the smallest first."""
    documents = [*raw.configs, *([raw.index] if raw.index else [])]
    names = [*(d.name for d in documents), *raw.other_files, *(f.name for f in raw.files)]
    return [n for n in dict.fromkeys(names) if any(fnmatch(n, p) for p in WANTED)]
