"""The parts of the child that need neither torch nor vLLM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from quantgate.vllm.smoke.child.failures import failure
from quantgate.vllm.smoke.child.layers import layers
from quantgate.vllm.smoke.child.tracking import names_in


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
