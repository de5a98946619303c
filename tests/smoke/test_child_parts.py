"""The parts of the child that need neither torch nor vLLM."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from quantgate.vllm.children.inside.release import Refused
from quantgate.vllm.smoke.child.compiled import compiled_part
from quantgate.vllm.smoke.child.failures import failure
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
    """A model, as far as `layers` looks at it."""

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
