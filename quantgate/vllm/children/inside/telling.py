"""The child's side of the talk: what it is to do, and one event a line back."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .release import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_PR_SET_PDEATHSIG = 1


def begin(job_file: str, events: int) -> tuple[dict[str, Any], Callable[..., None]]:
    """The job, and `tell(event, **more)`; from now on this process ends with its parent."""
    _die_with_parent()
    # Whatever vLLM starts must not hold the parent's pipe open.
    os.set_inheritable(events, False)  # noqa: FBT003  it takes no keyword
    stream = os.fdopen(events, "w", encoding="ascii")

    def tell(event: str, **more: Any) -> None:
        stream.write(json.dumps({"event": event, **more}) + "\n")
        stream.flush()

    return json.loads(Path(job_file).read_text(encoding="utf-8")), tell


def prepared(prepare: Callable[[], T], tell: Callable[..., None]) -> T | None:
    """What `prepare` makes ready; None where this Python cannot do the job, which is told."""
    try:
        return prepare()
    except Refused as error:
        tell("refused", reason=str(error))
    except ImportError as error:
        tell("refused", reason=f"the vLLM in {sys.executable} cannot be imported: {error}")
    return None


def _die_with_parent() -> None:
    """Ask Linux to end this process with the one that started it, even if that one is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
