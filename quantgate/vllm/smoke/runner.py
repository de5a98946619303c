"""From sources to answers: find the weights, start a child for each model, judge what it said."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.raw import SourceError
from quantgate.targets import NEWEST, Target, is_release
from quantgate.vllm.children.events import events
from quantgate.vllm.children.launch import before_ready, environment, launch
from quantgate.vllm.children.process import LEFT_BEHIND, Stopped
from quantgate.vllm.smoke.elsewhere import root_cause
from quantgate.vllm.smoke.result import SmokeLoad, SmokeOutcome, SmokeRun, read_result
from quantgate.vllm.smoke.sanity import judge_speech
from quantgate.vllm.smoke.weights import NoWeights, prepare, trouble

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quantgate.vllm.children.process import Child
    from quantgate.vllm.smoke.settings import Settings
    from quantgate.vllm.smoke.weights import Prepared

CHILD = "quantgate.vllm.smoke.child.serve"
FLOAT16 = "float16"

# What chooses devices and how they are driven; no token is among it.
_KEPT = (
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ROCM_PATH", "ZE_AFFINITY_MASK"),
    *("OMP_NUM_THREADS", "VLLM_CPU_KVCACHE_SPACE", "VLLM_TARGET_DEVICE", "CC"),
    "VLLM_CPU_OMP_THREADS_BIND",  # needed where there are fewer NUMA nodes than ranks
)
_WHILE = {
    "": "before it began to load",
    "load": "while it loaded",
    "score": "while it read a text",
    "generate": "while it spoke",
}
# Missing weights of these kinds may be fine: an index without an order, zero points of a symmetric
# scheme. What the model says will show it.
_OPTIONAL = (
    *("g_idx", "weight_g_idx", "qzeros", "weight_zero_point", "input_scale"),
    *("k_scale", "v_scale", "q_scale", "prob_scale"),
)


class SmokeError(Exception):
    """No smoke load can be done at all. The message is one sentence for the user."""


def smoke_load(
    sources: Sequence[str], settings: Settings, *, reference: str | None = None
) -> SmokeRun:
    """Load models and have them speak, one after the other, each in a process of its own.

    Args:
        sources: Model folders, or models on the Hub.
        settings: How to load, what to ask, what to accept.
        reference: The model that was quantized, or another one to compare with.

    Raises:
        SmokeError: There is no vLLM, or not the device that was asked for.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="quantgate-")
    except OSError as error:
        raise SmokeError(f"No smoke load: no scratch folder, {trouble(error)}.") from None
    with folder as scratch:
        session = _Session(Path(scratch), settings)
        other = session.load(reference) if reference is not None else None
        results = [_judged(session.load(source), settings, other) for source in sources]
    return SmokeRun(session.target, tuple(replace(r, target=session.target) for r in results))


def _judged(load: SmokeLoad, settings: Settings, reference: SmokeLoad | None) -> SmokeLoad:
    """The load with what is not sane about it."""
    if load.speech is None:
        return load
    other = reference.speech if reference is not None else None
    found = judge_speech(load.speech, settings.prompts, settings.thresholds, other)
    lost = [n for n in load.not_loaded if n.rpartition(".")[2] not in _OPTIONAL]
    complaints, notes = [*found.complaints], [*load.notes, *found.notes]
    if lost:
        complaints.insert(0, f"nothing was loaded into {_some(lost, load.not_loaded_count)}")
    elif load.not_loaded:
        notes.append(f"nothing was loaded into {_some(load.not_loaded, load.not_loaded_count)}")
    outcome = SmokeOutcome.SILENT if complaints else SmokeOutcome.WORKS
    reason = ""
    if outcome is SmokeOutcome.WORKS and reference is not None and other is None:
        outcome = SmokeOutcome.UNKNOWN
        reason = f"the reference did not speak: {reference.reason or reference.message}"
    return replace(
        load,
        outcome=outcome,
        reason=reason,
        complaints=tuple(complaints),
        notes=tuple(notes),
        compared=found.figures,
    )


def _some(names: Sequence[str], count: int) -> str:
    more = f" and {count - 3} more" if count > 3 else ""
    return f"{', '.join(names[:3])}{more}"


class _Session:
    """One call: where things are, and what vLLM turned out to be."""

    def __init__(self, scratch: Path, settings: Settings) -> None:
        self.scratch = scratch
        self.settings = settings
        device = "" if settings.device in {"auto", "cuda"} else settings.device
        self.target = Target(NEWEST, device, settings.tensor_parallel)

    def load(self, source: str) -> SmokeLoad:
        """One model; nothing of it is left on the disk or running afterwards."""
        try:
            with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
                return self._load(source, Path(folder))
        except OSError as error:  # of the disk: one model's trouble is not that of the others
            return self._unknown(source, trouble(error))

    def _load(self, source: str, folder: Path) -> SmokeLoad:
        """The same with a scratch folder for it."""
        try:
            prepared = prepare(source, folder, lfs=self.settings.lfs)
        except (SourceError, NoWeights) as error:
            return self._unknown(source, str(error))
        load, ended_by = self._attempt(source, prepared, folder, self.settings.dtype)
        wanted = self.settings.dtype
        if ended_by != signal.SIGILL or self.target.gpu != "cpu":
            return load
        why = "this processor lacks an instruction that vLLM used"
        if wanted in {"auto", FLOAT16}:
            return replace(load, reason=f"{load.reason}: {why}")
        load, _ = self._attempt(source, prepared, folder, FLOAT16)
        return replace(load, notes=(*load.notes, f"{why} for {wanted}; float16 was taken"))

    def _attempt(
        self, source: str, prepared: Prepared, folder: Path, dtype: str
    ) -> tuple[SmokeLoad, int]:
        """One child; also the signal that ended it, or 0."""
        talk = _Talk()
        with self._start(self._write_job(prepared, folder, dtype)) as child:
            try:
                said = talk.result(child)
                if said.get("elsewhere") is True:
                    said = root_cause(said, child.raised)
                load = read_result(source, self.target, said, has_words=prepared.has_tokenizer)
                ended_by = 0
            except Stopped as error:
                if not talk.release:
                    why = before_ready(f"the child process {error}", child.log)
                    raise SmokeError(f"No smoke load: {why}.") from None
                load, ended_by = self._stopped(source, error, talk.phase), error.signal
                load = replace(load, log=child.log)
            except ValueError as error:
                load, ended_by = self._unknown(source, str(error)), 0
            if load.exception:
                load = replace(load, log=child.log)
        if child.left_behind and LEFT_BEHIND not in load.reason:
            note = f"the child process had no more to do{LEFT_BEHIND}"
            load = replace(load, notes=(*load.notes, note))
        self.target = replace(self.target, release=talk.release, gpu=talk.gpu)
        return (
            replace(
                load,
                target=self.target,
                libraries=talk.libraries,
                device=talk.device,
                peak_bytes=child.peak,
            ),
            ended_by,
        )

    def _stopped(self, source: str, error: Stopped, phase: str) -> SmokeLoad:
        hint = ""
        if error.signal == signal.SIGKILL:
            hint = "; the system may have run out of memory"
        return self._unknown(source, f"the child process {error} {_WHILE.get(phase, '')}{hint}")

    def _start(self, job: Path) -> Child:
        python = self.settings.vllm_python
        kept = {k: os.environ[k] for k in _KEPT if k in os.environ}
        more = {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # errors come with their traceback
            "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # our functions, to vLLM's own processes
            "TRITON_CACHE_DIR": str(job.parent / "triton"),
            # Some helpers of vLLM's are compiled even with enforce_eager; that takes a compiler
            # and longer than they run.
            "TORCHDYNAMO_DISABLE": "1",
        }
        environ = {**environment(job.parent), **kept, **more}
        try:
            return launch(python, CHILD, job, self.settings.limits, environ)
        except OSError as error:
            raise SmokeError(
                f"No smoke load: the Python {python!r} cannot be started: {error.strerror}."
            ) from None

    def _write_job(self, prepared: Prepared, folder: Path, dtype: str) -> Path:
        settings = self.settings
        job = folder / "job.json"
        document = {
            "folder": str(prepared.folder),
            "tokenizer": prepared.has_tokenizer,
            "device": settings.device,
            "dtype": dtype,
            "tensor_parallel": settings.tensor_parallel,
            "max_model_len": settings.max_model_len or prepared.max_model_len,
            "text": settings.text,
            "prompts": settings.prompts,
            "max_tokens": settings.max_tokens,
        }
        job.write_text(json.dumps(document), encoding="utf-8")
        return job

    def _unknown(self, source: str, reason: str) -> SmokeLoad:
        return SmokeLoad(
            source=source, target=self.target, outcome=SmokeOutcome.UNKNOWN, reason=reason
        )


class _Talk:
    """What a child tells, in the order in which it must.

    Attributes:
        release: The release of vLLM it found, once it is ready.
        libraries: What else it found.
        gpu: What it runs on, as a target names it.
        device: The device's name.
        phase: What it is at.
    """

    def __init__(self) -> None:
        self.release = ""
        self.libraries = ""
        self.gpu = ""
        self.device = ""
        self.phase = ""

    def result(self, child: Child) -> dict[str, Any]:
        """What it says of the model.

        Raises:
            SmokeError: It says that it can load none.
            Stopped: It died, or told something else.
        """
        found: dict[str, Any] | None = None
        for event in events(child):
            match event:
                case {"event": "refused", "reason": str(reason)} if not self.release:
                    raise SmokeError(f"No smoke load: {ascii(reason)[1:-1]}.")
                case {
                    "event": "ready",
                    "release": str(release),
                    "libraries": str(libraries),
                    "device": {"gpu": str(gpu), "name": str(name)},
                } if is_release(release) and not self.release and _is_gpu(gpu):
                    self.release, self.libraries = release, libraries
                    self.gpu, self.device = gpu, name
                case {"event": "phase", "name": str(name)} if self.release and name in _WHILE:
                    self.phase = name
                case {"event": "done", "result": dict(said)} if self.release and found is None:
                    found = said
                    break
                case _:
                    raise Stopped("told something that is no answer")
        if found is None:
            raise Stopped("ended before it was done")
        return found


def _is_gpu(text: str) -> bool:
    try:
        return Target.parse(f"gpu={text}").gpu == text
    except ValueError:
        return False
