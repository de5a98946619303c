"""From sources to answers: rebuild the models, start children, read what they tell."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.checkpoint.raw import SourceError
from quantgate.checkpoint.sources import read_source
from quantgate.targets import NEWEST, Target, is_release
from quantgate.vllm.children.events import events
from quantgate.vllm.children.launch import before_ready, environment, launch
from quantgate.vllm.children.process import Child, Limits, Stopped
from quantgate.vllm.dry_load.rebuild import CannotRebuild, rebuild
from quantgate.vllm.dry_load.result import DryLoad, DryOutcome, DryRun, read_result

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

CHILD = "quantgate.vllm.dry_load.child.serve"
MODELS_PER_CHILD = 200
"""vLLM keeps some memory of every model; a new process from time to time gives it back."""


class DryLoadError(Exception):
    """No dry load can be done at all. The message is one sentence for the user."""


def dry_load(
    sources: Sequence[str],
    *,
    gpu: str = "sm90",
    tensor_parallel: int = 1,
    vllm_python: str = sys.executable,
    limits: Limits = Limits(),  # noqa: B008  it is frozen
    lfs: Lfs = Lfs.AUTO,
) -> DryRun:
    """Load models dry, one after the other; one bad model does not end the others.

    Args:
        sources: Model folders or header archives.
        gpu: A key of `GPUS`, or `cpu`.
        tensor_parallel: The first and the last rank of a group of this size are loaded.
        vllm_python: A Python that has vLLM.
        limits: For every child process.
        lfs: Whether to look up the Git LFS pointers of a folder.

    Raises:
        DryLoadError: There is no vLLM, or not one that is supported.
    """
    with tempfile.TemporaryDirectory(prefix="quantgate-") as scratch:
        session = _Session(Path(scratch), gpu, tensor_parallel, vllm_python, limits)
        return session.run(sources, lfs)


class _Session:
    """One call: what is known so far of each model."""

    def __init__(
        self, scratch: Path, gpu: str, tensor_parallel: int, python: str, limits: Limits
    ) -> None:
        self.scratch = scratch
        self.python = python
        self.limits = limits
        self.target = Target(NEWEST, gpu, tensor_parallel)
        self.libraries = ""
        self.answers: dict[int, DryLoad] = {}
        self.unread: dict[int, str] = {}

    def run(self, sources: Sequence[str], lfs: Lfs) -> DryRun:
        folders: dict[int, Path] = {}
        for index, source in enumerate(sources):
            folder = self.scratch / "models" / str(index)
            try:
                unread = rebuild(read_source(source, lfs=lfs), folder)
            except (SourceError, CannotRebuild) as error:
                self.answers[index] = self._unknown(source, str(error))
            else:
                folders[index] = folder
                self.unread[index] = unread
        # Also where nothing is left to load: a Python without vLLM must be told.
        asked = False
        while folders or not asked:
            asked = True
            batch = dict(list(folders.items())[:MODELS_PER_CHILD])
            self._run_child(sources, batch)
            folders = {i: f for i, f in folders.items() if i not in self.answers}
        answers = tuple(
            replace(self.answers[i], target=self.target, libraries=self.libraries)
            for i in range(len(sources))
        )
        return DryRun(self.target, answers)

    def _run_child(self, sources: Sequence[str], folders: Mapping[int, Path]) -> None:
        """Load these; at least one of them has its answer afterwards.

        A child that dies takes with it only the model it was at.
        """
        job = self._write_job(folders)
        talk = _Talk()
        why = ""
        with self._start(job) as child:
            try:
                for index, said in talk.answers(child, folders):
                    self.answers[index] = read_result(sources[index], self.target, said)
            except Stopped as error:
                why = f"the child process {error}"
            except ValueError as error:
                why = str(error)
        if not talk.release:
            raise DryLoadError(f"No dry load: {before_ready(why, child.log)}.")
        self.target = replace(self.target, release=talk.release)
        self.libraries = talk.libraries
        left = [i for i in folders if i not in self.answers]
        if left and not why and len(left) == len(folders):
            why = "the child process ended before it was done"
        if why and left:
            # One that died between two models takes the next, or it would be tried for ever.
            current = talk.current if talk.current is not None else left[0]
            self.answers[current] = replace(self._unknown(sources[current], why), log=child.log)

    def _start(self, job: Path) -> Child:
        environ = {
            **environment(self.scratch),
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
        }
        try:
            return launch(self.python, CHILD, job, self.limits, environ)
        except OSError as error:
            raise DryLoadError(
                f"No dry load: the Python {self.python!r} cannot be started: {error.strerror}."
            ) from None

    def _write_job(self, folders: Mapping[int, Path]) -> Path:
        job = self.scratch / "job.json"
        document = {
            "gpu": self.target.gpu,
            "tensor_parallel": self.target.tensor_parallel,
            "models": [
                {"index": i, "folder": str(f), "unread": self.unread[i]} for i, f in folders.items()
            ],
        }
        job.write_text(json.dumps(document), encoding="utf-8")
        return job

    def _unknown(self, source: str, reason: str) -> DryLoad:
        return DryLoad(source=source, target=self.target, outcome=DryOutcome.UNKNOWN, reason=reason)


class _Talk:
    """What a child tells, in the order in which it must.

    Attributes:
        release: The release of vLLM it found, once it is ready.
        libraries: What else it found.
        current: The model it is at.
    """

    def __init__(self) -> None:
        self.release = ""
        self.libraries = ""
        self.current: int | None = None

    def answers(
        self, child: Child, expected: Container[int]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The models with what the child says about them.

        Raises:
            DryLoadError: It says that it cannot do any.
            Stopped: It died, or told something else.
        """
        for event in events(child):
            match event:
                case {"event": "refused", "reason": str(reason)}:
                    raise DryLoadError(f"No dry load: {ascii(reason)[1:-1]}.")
                case {"event": "ready", "release": str(release), "libraries": str(libraries)} if (
                    is_release(release)
                ):
                    self.release = release
                    self.libraries = libraries
                case {"event": "start", "model": int(index)} if self.release and index in expected:
                    self.current = index
                case {"event": "done", "model": int(index), "result": dict(said)} if (
                    index == self.current
                ):
                    yield index, said
                    self.current = None
                case {"event": "end"} if self.release and self.current is None:
                    return
                case _:
                    raise Stopped("told something that is no answer")
        raise Stopped("ended before it was done")
