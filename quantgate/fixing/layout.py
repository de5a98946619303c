"""`quantgate fix --layout`: a model whose weights are packed along the wrong axis, rebuilt.

The new model goes into a folder of its own, which appears when every file is written and read
again; the original is only read.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quantgate.checkpoint.local import read_folder
from quantgate.checkpoint.raw import assemble
from quantgate.fixing.packing import (
    SYMMETRIC,
    Packing,
    Repacking,
    decode_weight,
    decode_zeros,
    grouped_in_order,
)
from quantgate.fixing.weights import WRITABLE, Stored, write_weights
from quantgate.model import Model
from quantgate.quantization.awq import AwqDeclaration
from quantgate.quantization.difference import Kind
from quantgate.quantization.gptq import GptqDeclaration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from quantgate.checkpoint.model import Checkpoint, WeightFile
    from quantgate.fixing.nibbles import Words
    from quantgate.targets import Target

    Changes = dict[str, NDArray[np.int32] | None]


class LayoutError(Exception):
    """The weights cannot be rebuilt as declared. The message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was done: how many modules of which packing were packed as which other."""

    repacking: Repacking
    modules: int
    files: int


def rebuild(source: str, output: str | Path, target: Target) -> Rebuilt | None:
    """Write a copy of a model whose weights are packed as its config declares.

    Args:
        source: A model folder.
        output: A folder that is not there, or is empty.
        target: The engine whose reading of the declaration counts.

    Returns:
        What was done; None if no weight is packed along the wrong axis. Then nothing is written.

    Raises:
        SourceError: The source cannot be read.
        LayoutError: The weights cannot be rebuilt, or did not come out equal.
        OSError: A file cannot be read or written.
    """
    checkpoint = assemble(read_folder(source))
    model = Model(checkpoint, target)
    modules = tuple(dict.fromkeys(m for m, _ in model.differing(Kind.AXIS)))
    if not modules:
        return None
    _refuse(model, modules)
    job = _Job(Path(source), checkpoint, model, modules)
    repacking = job.repacking()
    destination = Path(output).absolute()
    # Beside the folder, so that the last step is one rename.
    partial = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    try:
        job.write(partial, repacking)
        partial.chmod(0o755)
        if destination.is_dir():
            destination.rmdir()  # refuses a folder that is not empty
        partial.rename(destination)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return Rebuilt(repacking, len(modules), len(checkpoint.loaded_files))


def _refuse(model: Model, modules: tuple[str, ...]) -> None:
    """Stop where the files or the declaration leave doubts."""
    declaration = model.declaration
    for file in model.checkpoint.loaded_files:
        if file.header is None or file.header.defects or file.defects:
            raise LayoutError(f"{file.name} is damaged; repair it first.")
        foreign = {t.dtype for t in file.header.tensors} - WRITABLE
        if foreign:
            raise LayoutError(f"{file.name} has tensors of the type {min(foreign)}.")
    packed = {m for m, leaves in model.modules.items() if "qweight" in leaves}
    if packed != set(modules):
        raise LayoutError("Only some modules are packed along the other axis: export them again.")
    for module in modules:
        scheme = model.schemes.get(module)
        leaves = model.modules[module]
        if scheme is None or scheme.bits != 4:
            raise LayoutError("Only weights of 4 bits can be rebuilt.")
        if any(leaves.get(leaf, ("", ()))[0] != "I32" for leaf in ("qweight", "qzeros")):
            raise LayoutError("A module has no qzeros of the type I32: export it again.")
    if isinstance(declaration, AwqDeclaration) and not declaration.zero_point:
        raise LayoutError("Declare zero_point: true first: vLLM's AWQ needs the zero points.")


@dataclass(frozen=True)
class _Job:
    folder: Path
    checkpoint: Checkpoint
    model: Model
    modules: tuple[str, ...]

    def _stored(self) -> Iterator[tuple[WeightFile, Stored]]:
        for file in self.checkpoint.loaded_files:
            if file.header is not None and file.header.tensors:
                yield file, Stored(self.folder / file.name, file.header)

    def _mine(self, stored: Stored, leaf: str) -> Iterator[tuple[str, str]]:
        """(module, tensor name) of the modules to rebuild that have this leaf in this file."""
        for module in self.modules:
            if f"{module}.{leaf}" in stored.tensors:
                yield module, f"{module}.{leaf}"

    def repacking(self) -> Repacking:
        """Which packing is stored, with a look at all zero points and groups."""
        declaration = self.model.declaration
        v2 = declaration is not None and declaration.raw.get("checkpoint_format") == "gptq_v2"
        if isinstance(declaration, GptqDeclaration):
            work = Repacking(Packing.AWQ, Packing.GPTQ_V2 if v2 else Packing.GPTQ)
            self._only_symmetric()
            return work
        self._only_ordered()
        return Repacking(Packing.GPTQ_V2 if v2 or self._all_eight() else Packing.GPTQ, Packing.AWQ)

    def _only_symmetric(self) -> None:
        for _, stored in self._stored():
            for _, name in self._mine(stored, "qzeros"):
                if (decode_zeros(stored.words(name), Packing.AWQ) != SYMMETRIC).any():
                    raise LayoutError(
                        "The zero points are not all 8, and vLLM computes GPTQ as if they were: "
                        "declare awq instead."
                    )

    def _only_ordered(self) -> None:
        for _, stored in self._stored():
            for module, name in self._mine(stored, "g_idx"):
                scheme = self.model.schemes[module]
                size = scheme.group_size if scheme is not None else None
                if stored.tensors[name].dtype != "I32" or not grouped_in_order(
                    stored.words(name), size
                ):
                    raise LayoutError("The weights are in activation order, which AWQ has not.")

    def _all_eight(self) -> bool:
        """Whether every stored zero point is 8: what the second format stores of symmetric weights.

        In the first format this would be a zero point of 9 in every single group.
        """
        eights = np.int32(-0x77777778)  # 0x88888888
        return all(
            (stored.words(name) == eights).all()
            for _, stored in self._stored()
            for _, name in self._mine(stored, "qzeros")
        )

    def write(self, folder: Path, repacking: Repacking) -> None:
        """Write all files into a new folder, and read the weights again."""
        moved: dict[str, str | None] = {}
        rebuilt = set()
        for file, stored in self._stored():
            changes = self._changes(stored, repacking)
            write_weights(folder / file.name, stored, changes)
            self._verify(folder, file.name, stored, changes, repacking)
            added = {n: file.name for n in changes if n not in stored.tensors}
            moved |= added | {n: None for n, words in changes.items() if words is None}
            rebuilt.add(file.name)
        self._copy_others(folder, rebuilt)
        _edit_index(self.checkpoint, self.folder, folder, moved)

    def _changes(self, stored: Stored, repacking: Repacking) -> Changes:
        changes: Changes = {}
        for module, name in self._mine(stored, "qweight"):
            words = stored.words(name)
            changes[name] = repacking.weight(words)
            scheme = self.model.schemes[module]
            if repacking.stored is Packing.AWQ and scheme is not None:
                # vLLM drops it, other programs ask for it.
                rows = np.arange(words.shape[0], dtype=np.int32)
                changes[f"{module}.g_idx"] = rows // np.int32(scheme.group_size or len(rows))
        for _, name in self._mine(stored, "qzeros"):
            changes[name] = repacking.zeros(stored.words(name))
        if repacking.declared is Packing.AWQ:
            changes |= {name: None for _, name in self._mine(stored, "g_idx")}
        return changes

    def _verify(
        self, folder: Path, name: str, stored: Stored, changes: Changes, repacking: Repacking
    ) -> None:
        """Read the new file, and compare q and z and every other byte with the old one's."""
        from safetensors import safe_open  # noqa: PLC0415

        found = next(f for f in assemble(read_folder(folder)).files if f.name == name)
        if found.header is None or found.header.defects or found.defects:
            raise LayoutError(f"The new {name} cannot be read again.")
        again = Stored(folder / name, found.header)
        kept = stored.tensors.keys() - changes.keys()
        wanted = kept | {n for n, words in changes.items() if words is not None}
        same = again.tensors.keys() == wanted and all(
            np.array_equal(stored.raw(n), again.raw(n)) for n in kept
        )
        with safe_open(folder / name, framework="numpy") as opened:
            for decode, leaf in ((decode_weight, "qweight"), (decode_zeros, "qzeros")):
                for _, tensor in self._mine(stored, leaf):
                    words: Words = opened.get_tensor(tensor)
                    before = decode(stored.words(tensor), repacking.stored)
                    same = same and np.array_equal(decode(words, repacking.declared), before)
        if not same:
            raise LayoutError(f"The new {name} does not hold what the old one holds.")

    def _copy_others(self, folder: Path, rebuilt: set[str]) -> None:
        """Copy the other files of the folder; not its sub-folders, nor links that lead out."""
        real = self.folder.resolve()
        roots = (real, *(p.parent / "blobs" for p in real.parents if p.name == "snapshots"))
        for path in sorted(self.folder.iterdir()):
            inside = any(path.resolve().is_relative_to(root) for root in roots)
            if path.name not in rebuilt and inside and path.is_file():
                shutil.copyfile(path, folder / path.name)


def _edit_index(
    checkpoint: Checkpoint, source: Path, folder: Path, moved: Mapping[str, str | None]
) -> None:
    """Name the added tensors in the copied index, and no longer those that are gone."""
    index = checkpoint.used_index
    if index is None or index.error or not moved:
        return
    value: dict[str, Any] = json.loads((source / index.name).read_bytes())
    weight_map: dict[str, str] = value["weight_map"]
    for name, file in moved.items():
        weight_map.pop(name, None)
        if file is not None:
            weight_map[name] = file
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and "total_size" in metadata:
        names = set(weight_map.values())
        files = assemble(read_folder(folder)).files
        headers = [f.header for f in files if f.header is not None and f.name in names]
        metadata["total_size"] = sum(t.nbytes for h in headers for t in h.tensors)
    (folder / index.name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
