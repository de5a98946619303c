"""A folder with a model's weights for vLLM: links into the user's own, or what was fetched.

vLLM follows every link, and reads whatever lies in a folder. So it gets a folder of ours, with
nothing but the files that it needs, each of which was seen to lie in the model's own.
"""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.checkpoint.local import locate
from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.raw import (
    CONFIG_NAMES,
    INDEX_SUFFIX,
    MAX_CONFIG,
    MAX_INDEX,
    WEIGHT_SUFFIX,
    UnreadError,
)
from quantgate.checkpoint.sources import read_source
from quantgate.report.words import size
from quantgate.vllm.smoke.named_paths import take_paths_out
from quantgate.vllm.smoke.settings import DOWNLOAD_SECONDS, MAX_MODEL_LEN, MIN_MODEL_LEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.checkpoint.pointer import Pointer
    from quantgate.checkpoint.raw import RawCheckpoint

# Whatever else a repository holds (code, pickles, GGUF) is not fetched, and not shown to vLLM.
WANTED = ("*.safetensors", "*.json", "*.model", "*.model.v*", "*.txt", "*.tiktoken", "*.jinja")
MAX_OTHER: Final = 1_000_000_000
"""Largest file in bytes beside weights, configs and index; tokenizers stay below 50 MB."""

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
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
    source: str, scratch: Path, *, lfs: Lfs = Lfs.NEVER, seconds: float = DOWNLOAD_SECONDS
) -> Prepared:
    """The folder of a source, made beneath `scratch`, which exists; nothing is copied into it.

    Args:
        source: A model folder, or a model on the Hub.
        scratch: A folder for this model alone.
        lfs: Which servers may be asked for the files that Git LFS pointers stand for.
        seconds: For fetching these.

    Raises:
        NoWeights: Weights are missing or lie elsewhere, or do not fit on the disk.
        SourceError: There is no model to read.
        OSError: The source cannot be read.
    """
    raw = read_source(source, lfs=Lfs.NEVER)
    if not any(f.name.endswith(WEIGHT_SUFFIX) for f in raw.files):
        raise NoWeights("it has no safetensors files, and no others are loaded")
    path = Path(source)
    if path.is_file():
        raise NoWeights("a header archive has no weights, and only a model with weights can speak")
    _refuse_documents(raw)
    made = scratch / "model"
    if path.is_dir():
        _link(raw, path.resolve(), made, lfs=lfs, seconds=seconds)
    else:
        _fetch(raw, made)
    try:
        take_paths_out(made)
    except UnreadError as error:
        raise NoWeights(str(error)) from None
    return Prepared(made, has_tokenizer(made), _context(made))


def trouble(error: OSError) -> str:
    """What an error of the disk means, in words."""
    if error.errno in _FULL:
        return "the disk is full"
    return f"the disk refused: {error.strerror or type(error).__name__}"


def has_tokenizer(folder: Path) -> bool:
    """Whether there is a file that a tokenizer is made of."""
    return any((folder / n).is_file() for n in _TOKENIZERS) or any(folder.glob("*.tiktoken"))


def _refuse_documents(raw: RawCheckpoint) -> None:
    """Raise for a config or an index that nobody should read."""
    for document in (*raw.configs, *([raw.index] if raw.index else [])):
        content = document.content
        if isinstance(content, Defect) and content.kind is not DefectKind.NOT_FETCHED:
            raise NoWeights(f"{document.name} {content.message}")


def _link(raw: RawCheckpoint, folder: Path, made: Path, *, lfs: Lfs, seconds: float) -> None:
    """Make a folder with the files of a model folder, those that are pointers there fetched."""
    pointers: dict[str, Pointer] = {}
    links: dict[str, Path] = {}
    for name, file in locate(folder, _wanted(raw)).items():
        if isinstance(file, Defect):
            raise NoWeights(f"{name} {file.message}")
        _check_size(name, file.size)
        if file.pointer is None:
            links[name] = file.path
        else:
            pointers[name] = file.pointer
    smallest_first = dict(sorted(pointers.items(), key=lambda item: item[1].size))
    if pointers and lfs is Lfs.NEVER:
        name = next(iter(smallest_first))
        raise NoWeights(f"{name} is a Git LFS pointer, its file was not fetched")
    made.mkdir()
    for name, path in links.items():
        (made / name).symlink_to(path)
    if pointers:
        _download(folder, smallest_first, made, lfs=lfs, seconds=seconds)


def _check_size(name: str, number: int) -> None:
    if name.endswith(WEIGHT_SUFFIX):
        return
    index = name.endswith(INDEX_SUFFIX)
    limit = MAX_INDEX if index else MAX_CONFIG if name in CONFIG_NAMES else MAX_OTHER
    if number > limit:
        raise NoWeights(f"{name} is larger than {size(limit)}")


def _download(
    folder: Path, pointers: Mapping[str, Pointer], made: Path, *, lfs: Lfs, seconds: float
) -> None:
    _has_room(sum(p.size for p in pointers.values()), made)
    # The client that it takes is slow to import, and seldom needed.
    from quantgate.checkpoint.lfs_download import download_pointers  # noqa: PLC0415
    from quantgate.checkpoint.transport import Limits  # noqa: PLC0415

    try:
        download_pointers(folder, pointers, made, mode=lfs, limits=Limits(deadline=seconds))
    except UnreadError as error:
        raise NoWeights(str(error)) from None
    except OSError as error:
        raise NoWeights(f"it cannot be fetched: {trouble(error)}") from None


def _has_room(needed: int, scratch: Path) -> None:
    free = shutil.disk_usage(scratch).free
    if needed * _ROOM > free:
        raise NoWeights(f"it takes {size(needed)}, and {size(free)} are free on the disk")


def _context(folder: Path) -> int:
    """What the config says of positions, as far as it says it.

    Raises:
        NoWeights: These are too few.
    """
    try:
        with (folder / "config.json").open("rb") as stream:
            config: Any = json.loads(stream.read(MAX_CONFIG))
    except (OSError, ValueError, RecursionError):
        return MAX_MODEL_LEN
    known = [MAX_MODEL_LEN]
    for part in (config, config.get("text_config") if isinstance(config, dict) else None):
        if isinstance(part, dict):
            positions = part.get("max_position_embeddings")
            if type(positions) is int and positions > 0:
                known.append(positions)
    if min(known) < MIN_MODEL_LEN:
        raise NoWeights(f"its config gives it {min(known)} positions, too few to read a text")
    return min(known)


def _fetch(raw: RawCheckpoint, folder: Path) -> None:
    """Download one commit of a repository, if the disk holds it."""
    # The client of the Hub is slow to import, and seldom needed.
    from huggingface_hub import (  # noqa: PLC0415
        get_hf_file_metadata,
        hf_hub_download,
        hf_hub_url,
    )

    from quantgate.checkpoint.hub import parse_source  # noqa: PLC0415

    repository = parse_source(raw.source)
    sizes = {f.name: f.size for f in raw.files}
    read = {d.name for d in raw.configs} | ({raw.index.name} if raw.index else set())
    try:
        for name in _wanted(raw):
            if name not in sizes and name not in read:
                url = hf_hub_url(
                    repository.id, name, revision=raw.revision, endpoint=repository.endpoint
                )
                sizes[name] = get_hf_file_metadata(url, endpoint=repository.endpoint).size or 0
                _check_size(name, sizes[name])
        _has_room(sum(sizes.values()), folder.parent)
        for name in _wanted(raw):
            hf_hub_download(
                repository.id,
                name,
                revision=raw.revision,
                endpoint=repository.endpoint,
                local_dir=folder,
            )
    except NoWeights:
        raise
    except Exception as error:  # the network, the Hub or the disk: none says anything of the model
        full = isinstance(error, OSError) and error.errno in _FULL
        words = "the disk is full" if full else f"{type(error).__name__}: {error}"
        raise NoWeights(f"it cannot be fetched: {words}") from None


def _wanted(raw: RawCheckpoint) -> list[str]:
    """The files that vLLM may read, the smallest first."""
    documents = [*raw.configs, *([raw.index] if raw.index else [])]
    names = [*(d.name for d in documents), *raw.other_files, *(f.name for f in raw.files)]
    return [n for n in dict.fromkeys(names) if any(fnmatch(n, p) for p in WANTED)]
