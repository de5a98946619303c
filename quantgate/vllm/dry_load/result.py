"""What a dry load says, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.targets import Target

MAX_TEXT = 4000


class DryOutcome(StrEnum):
    """What vLLM does with the model."""

    LOADS = "loads"
    FAILS = "fails"
    SILENT = "silent"  # loads without a word, and wrong
    UNKNOWN = "unknown"  # the dry load could not tell; never a guess

    @property
    def is_fault(self) -> bool:
        """Whether the model would not work."""
        return self in {DryOutcome.FAILS, DryOutcome.SILENT}


@dataclass(frozen=True, slots=True)
class SilentFault:
    """One kind of silent fault: how many tensors or parameters it befell, and some of them.

    `kind` is `uninitialised` (nothing was written to a parameter), `partial` (not everything),
    `truncated` (a tensor was cut to size), `miscast` (converted to a type that was not meant) or
    `dropped` (a layer's tensor reached nothing).
    """

    kind: str
    count: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DryLoad:
    """The answer for one model and one target. All text in it may come from the model.

    Attributes:
        source: What the user wrote.
        target: The release that is installed, the simulated GPU, the tensor-parallel size.
        outcome: What vLLM does.
        reason: Why the outcome is unknown, else empty.
        phase: Where it failed: `config`, `init`, `load` or `post`.
        exception: Its class.
        message: What vLLM said.
        where: The line of vLLM's that raised, such as `linear.py:412`.
        tensor: The checkpoint tensor that was being loaded.
        rank: The tensor-parallel rank this is said of.
        architecture: The class that vLLM built.
        method: What vLLM takes the quantization for.
        silent: The silent faults.
        post: `done`, or `not run` where the post-processing of weights needs real kernels.
        post_not_run: The classes it was not run for.
        libraries: Versions of what else the outcome depends on: Python, torch, transformers.
        log: The last lines of the child's log, where it did not end well.
        seconds: Wall time.
    """

    source: str
    target: Target
    outcome: DryOutcome
    reason: str = ""
    phase: str = ""
    exception: str = ""
    message: str = ""
    where: str = ""
    tensor: str = ""
    rank: int = 0
    architecture: str = ""
    method: str = ""
    silent: tuple[SilentFault, ...] = ()
    post: str = "not run"
    post_not_run: tuple[str, ...] = ()
    libraries: str = ""
    log: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DryRun:
    """The answers in the order of the sources, and the target they are for."""

    target: Target
    results: tuple[DryLoad, ...]


def read_result(source: str, target: Target, said: Mapping[str, Any]) -> DryLoad:
    """A child's answer as data.

    Raises:
        ValueError: The child did not say what it should; its process runs a model's numbers
            through vLLM and is not trusted further than needed.
    """
    try:
        silent = tuple(
            SilentFault(_text(kind), int(of["count"]), _texts(of["names"]))
            for kind, of in said.get("silent", {}).items()
        )
        return DryLoad(
            source=source,
            target=target,
            outcome=DryOutcome(said["outcome"]),
            reason=_text(said.get("reason", "")),
            phase=_text(said.get("phase", "")),
            exception=_text(said.get("exception", "")),
            message=_text(said.get("message", "")),
            where=_text(said.get("where", "")),
            tensor=_text(said.get("tensor", "")),
            rank=int(said.get("rank", 0)),
            architecture=_text(said.get("architecture", "")),
            method=_text(said.get("method", "")),
            silent=silent,
            post=_text(said.get("post", "not run")),
            post_not_run=_texts(said.get("post_not_run", [])),
            seconds=float(said.get("seconds", 0.0)),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the child's answer is malformed: {error!r}") from None


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("texts are not in a list")
    return tuple(map(_text, value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is not a string")
    return value[:MAX_TEXT]
