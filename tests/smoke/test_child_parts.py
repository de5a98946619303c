"""The parts of the child that need neither torch nor vLLM."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from quantgate.vllm.children.inside.release import Refused
from quantgate.vllm.smoke.child.compiled import compiled_part
from quantgate.vllm.smoke.child.failures import CannotLook, failure
from quantgate.vllm.smoke.child.layers import layers
from quantgate.vllm.smoke.child.tracking import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def load_weights(error: Exception) -> None:
    """As the function of vLLM's is called."""
    raise error


def raised(error: Exception) -> Exception:
    """The error with the traceback that loading would give it."""
    try:
        load_weights(error)
    except Exception as caught:
        return caught
    raise AssertionError


class OutOfMemoryError(RuntimeError):
    """Called as torch's."""


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (AssertionError(), "fails", ""),
        (KeyError("layers.0.mlp"), "fails", ""),
        (ValueError("Failed to find a kernel that can implement the linear layer"), "fails", ""),
        (OutOfMemoryError("CUDA"), "unknown", "there is too little memory for it here"),
        (RuntimeError("CUDA out of memory."), "unknown", "there is too little memory for it here"),
        (MemoryError(), "unknown", "there is too little memory for it here"),
        (
            ValueError("No available memory for the cache blocks."),
            "unknown",
            "there is too little memory for it here",
        ),
        (OSError("No space left on device"), "unknown", "there is too little room on the disk"),
        (
            ValueError("Please pass the argument `trust_remote_code=True`"),
            "unknown",
            "it needs remote code, which is refused and never run",
        ),
        (ImportError("no timm"), "unknown", "a library is missing here: no timm"),
        *(
            (error, "unknown", f"the driver, the compiler or vLLM's compiled part is not as {rest}")
            for error, rest in (
                (
                    AttributeError("'_OpNamespace' '_C' object has no attribute 'rms_norm'"),
                    "it must be here: '_OpNamespace' '_C' object has no attribute 'rms_norm'",
                ),
                (
                    RuntimeError("CUDA error: no kernel image is available for …\nCompile with …"),
                    "it must be here: CUDA error: no kernel image is available for …",
                ),
                (
                    RuntimeError("Failed to find C compiler. Please specify via CC …"),
                    "it must be here: Failed to find C compiler. Please specify via CC …",
                ),
            )
        ),
    ],
)
def test_what_an_exception_says(error: Exception, outcome: str, reason: str) -> None:
    """A refusal is the model's fault; what this machine lacks says nothing about it."""
    found = failure(raised(error), "load")
    assert (found["outcome"], found["reason"], found["phase"]) == (outcome, reason, "load")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("The NVIDIA driver on your system is too old (found version 12020)."),
        RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
        RuntimeError("CUDA error: no CUDA-capable device is detected"),
        RuntimeError("CUDA error: uncorrectable ECC error encountered"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
        RuntimeError("The server socket has failed to listen: port: 29500, code: -98, EADDRINUSE"),
        OSError(98, "Address already in use"),
        OSError(24, "Too many open files"),
        RuntimeError("can't start new thread"),
        FileNotFoundError(2, "No such file or directory", "ninja"),
        FileNotFoundError(2, "No such file or directory", "/usr/local/cuda/bin/nvcc"),
        RuntimeError("Unable to find nvcc"),
        OSError("CUDA_HOME environment variable is not set. Please set it to …"),
        RuntimeError("0 active drivers ([]). There should only be one."),
        RuntimeError("NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"),
        AssertionError("Not enough allowed NUMA nodes to bind threads of 2 local CPUWorkers."),
        AssertionError("No enough allowed NUMA nodes to bind threads of 2 CPUWorkers."),
        ValueError("Available memory on node 0 (5.0/15.6 GiB) on kv cache allocation is less …"),
        ConnectionResetError(104, "Connection reset by peer"),
        TimeoutError("RPC call to sample_tokens timed out."),
    ],
    ids=str,
)
def test_what_the_machine_lacks(error: Exception) -> None:
    """Driver, device, compiler, ports, threads, files and the other ranks are no model's fault."""
    found = failure(raised(error), "load")
    assert found["outcome"] == "unknown"
    assert found["reason"]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate`"),
        FileNotFoundError(2, "No such file or directory", "/models/x/model-00001.safetensors"),
        EOFError("Ran out of input"),
        RuntimeError("start (64) + length (64) exceeds dimension size (64)."),
        KeyError("layers.0.nccl_scale"),
    ],
    ids=str,
)
def test_what_a_model_may_cause(error: Exception) -> None:
    """What weights can do to a GPU, and what is missing beside them, is not the machine's."""
    found = failure(raised(error), "load")
    assert (found["outcome"], found["elsewhere"]) == ("fails", False)


@pytest.mark.parametrize(
    "error",
    [
        Exception(
            "WorkerProc initialization failed due to an exception in a background process. "
            "See stack trace for root cause."
        ),
        RuntimeError("Engine core initialization failed. See root cause above. Failed …: {}"),
        RuntimeError(
            "Worker failed with error 'x', please check the stack trace above for the root cause"
        ),
        RuntimeError("EngineCore encountered an issue. See stack trace (above) for the root cause"),
        RuntimeError("Executor failed."),
        RuntimeError("cancelled"),
        TimeoutError("RPC call to sample_tokens timed out."),
    ],
    ids=str,
)
def test_cause_is_elsewhere(error: Exception) -> None:
    """An exception that only points to another process is no answer, until its log is read."""
    found = failure(raised(error), "load")
    assert (found["outcome"], found["elsewhere"]) == ("unknown", True)


def test_memory_told_by_another_process() -> None:
    """What the pointer itself quotes is an answer already."""
    error = RuntimeError("Worker failed with error 'CUDA out of memory.', please check the stack …")
    found = failure(raised(error), "generate")
    assert (found["elsewhere"], found["reason"]) == (
        False,
        "there is too little memory for it here",
    )


def test_question_of_ours() -> None:
    """If vLLM cannot be asked what it loaded, whatever it says to that, no model is blamed."""
    error = CannotLook("what vLLM loaded could not be looked at: cancelled")
    error.__cause__ = RuntimeError("cancelled")
    found = failure(raised(error), "load")
    assert (found["outcome"], found["elsewhere"], found["reason"]) == ("unknown", False, str(error))


def test_cause_counts() -> None:
    """An error that vLLM wraps is found, whatever is raised in the end."""
    error = RuntimeError("Engine core initialization failed")
    error.__cause__ = OutOfMemoryError("CUDA")
    assert failure(raised(error), "load")["outcome"] == "unknown"


def test_names_of_the_tracking() -> None:
    """The names that vLLM lists, and none from another error."""
    message = "Following weights were not initialized from checkpoint: {'b.scale', 'a.scale'}"
    assert names_in(message) == ["a.scale", "b.scale"]
    assert names_in("checkpoint: {'a'}") == []
    assert names_in("weights were not initialized from checkpoint: {a}") == []


class Module(SimpleNamespace):
    """A model, and the worker that has it, as far as `layers` looks at them."""

    def get_model(self) -> Module:
        """As a worker is asked."""
        return self

    def named_modules(self) -> list[tuple[str, object]]:
        """The parts by name."""
        return self.parts


class Kernel:
    """A kernel that a scheme holds."""


class Scheme:
    """As compressed-tensors has it."""

    kernel = Kernel()


class Method:
    """As vLLM has it."""

    kernel = None
    backend = SimpleNamespace(name="MARLIN")


def test_layers_of_one_kind() -> None:
    """Layers that differ in numbers are one entry, with scheme and kernel if there are any."""
    made = [SimpleNamespace(quant_method=Method(), scheme=Scheme()) for _ in range(2)]
    parts = [(f"layers.{n}.mlp.down_proj", m) for n, m in enumerate(made)]
    parts += [("head", SimpleNamespace(quant_method=Method())), ("norm", SimpleNamespace())]
    assert layers(Module(parts=parts)) == [
        {
            "layers": "layers.*.mlp.down_proj",
            "method": "Method",
            "scheme": "Scheme",
            "kernel": "Kernel",
            "count": 2,
        },
        {"layers": "head", "method": "Method", "scheme": "", "kernel": "MARLIN", "count": 1},
    ]


@pytest.fixture
def vllm_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A vLLM whose custom operators log the lines of a file while they are imported."""
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_custom_ops.py").write_text(
        "import logging, pathlib\n"
        "for line in pathlib.Path(__file__).with_name('log').read_text().splitlines():\n"
        "    logging.getLogger('vllm.platforms.cpu').warning('%s', line)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield package / "log"
    for name in ("vllm", "vllm._custom_ops"):
        sys.modules.pop(name, None)


def test_a_compiled_part_that_cannot_be_imported(vllm_says: Path) -> None:
    """vLLM only logs it and fails later at a model; so it is told before any is loaded."""
    lost = "Failed to import from vllm._C: ImportError('libnuma.so.1: cannot open …')"
    vllm_says.write_text(f"something else\n{lost}\n")
    with pytest.raises(Refused, match=r"compiled part cannot be used here: .*libnuma\.so\.1"):
        compiled_part("cpu")


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("cpu", "Triton is not installed."),
        ("rocm", "Failed to import from vllm._C_stable_libtorch with ImportError()"),
    ],
)
def test_a_compiled_part_that_is_there(vllm_says: Path, kind: str, line: str) -> None:
    """Other warnings mean nothing, and ROCm's are of modules that it may lack."""
    vllm_says.write_text(line)
    compiled_part(kind)
