"""A model folder with its weights: the user's own, or one fetched from the Hub or Git LFS."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.checkpoint.pointer import MAX_POINTER, Pointer, parse_pointer
from quantgate.checkpoint.raw import WEIGHT_SUFFIX, UnreadError
from quantgate.checkpoint.sources import read_source
from quantgate.report.words import size
from quantgate.vllm.smoke.settings import MAX_MODEL_LEN

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def prepare(
    source: str, scratch: Path, *, lfs: Lfs = Lfs.NEVER, seconds: float = math.inf
) -> Prepared:
    """The folder of a source; what is fetched goes beneath `scratch`, which exists.

    Args:
        source: A model folder, or a model on the Hub.
        scratch: A folder for this model alone.
        lfs: Which servers may be asked for the files that Git LFS pointers stand for.
        seconds: For fetching these.

    Raises:
        NoWeights: Weights are missing, or do not fit on the disk.
        SourceError: There is no model to read.
    """
    raw = read_source(source, lfs=Lfs.NEVER)
    if not any(f.name.endswith(WEIGHT_SUFFIX) for f in raw.files):
        raise NoWeights("it has no safetensors files, and no others are loaded")
    path = Path(source)
    if path.is_file():
        raise NoWeights("a header archive has no weights, and only a model with weights can speak")
    if not path.is_dir():
        folder = _fetch(raw, scratch)
    elif pointers := _pointers(raw, path):
        folder = _complete(raw, path.resolve(), pointers, scratch, lfs=lfs, seconds=seconds)
    else:
        folder = path.resolve()
    return Prepared(folder, has_tokenizer(folder), _context(folder))


def has_tokenizer(folder: Path) -> bool:
    """Whether there is a file that a tokenizer is made of."""
    return any((folder / n).is_file() for n in _TOKENIZERS) or any(folder.glob("*.tiktoken"))


def _pointers(raw: RawCheckpoint, folder: Path) -> dict[str, Pointer]:
    """The Git LFS pointers among the files that vLLM may read, the smallest file first.

    A tokenizer is often one, too.
    """
    found = {n: p for n, p in raw.pointers.items() if n in _wanted(raw)}
    for name in _wanted(raw):
        path = folder / name
        if name not in found and path.is_file() and path.stat().st_size < MAX_POINTER:
            pointer = parse_pointer(path.read_bytes())
            if pointer is not None:
                found[name] = pointer
    return dict(sorted(found.items(), key=lambda item: item[1].size))


def _complete(
    raw: RawCheckpoint,
    folder: Path,
    pointers: Mapping[str, Pointer],
    scratch: Path,
    *,
    lfs: Lfs,
    seconds: float,
) -> Path:
    """A folder with the files of a checkout, those that are pointers there fetched."""
    if lfs is Lfs.NEVER:
        raise NoWeights(f"{next(iter(pointers))} is a Git LFS pointer, its file was not fetched")
    _has_room(sum(p.size for p in pointers.values()), scratch)
    # The client that it takes is slow to import, and seldom needed.
    from quantgate.checkpoint.lfs_download import download_pointers  # noqa: PLC0415
    from quantgate.checkpoint.transport import Limits  # noqa: PLC0415

    made = scratch / "model"
    made.mkdir()
    for name in _wanted(raw):
        if name not in pointers and (folder / name).is_file():
            (made / name).symlink_to(folder / name)
    try:
        download_pointers(folder, pointers, made, mode=lfs, limits=Limits(deadline=seconds))
    except UnreadError as error:
        raise NoWeights(str(error)) from None
    return made


def _has_room(needed: int, scratch: Path) -> None:
    free = shutil.disk_usage(scratch).free
    if needed * _ROOM > free:
        raise NoWeights(f"it takes {size(needed)}, and {size(free)} are free on the disk")


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
    _has_room(sum(f.size for f in raw.files), scratch)
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
