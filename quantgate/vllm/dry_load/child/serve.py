"""The child's loop: reads the job, loads one model after the other, writes one event a line.

```
{"event": "ready", "release": "0.32.0", "libraries": "Python 3.11.7, torch 2.13.0, …"}
{"event": "refused", "reason": "..."}      instead of ready
{"event": "start", "model": 0}
{"event": "done", "model": 0, "result": {...}}
{"event": "end"}
```
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .adapters import Refused, installed_release

_PR_SET_PDEATHSIG = 1


def serve(job_file: str, events: int) -> None:
    """Do the job in `job_file`, telling the file descriptor `events`."""
    _die_with_parent()
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    # Whatever vLLM starts must not hold the parent's pipe open.
    os.set_inheritable(events, False)  # noqa: FBT003  it takes no keyword
    stream = os.fdopen(events, "w", encoding="ascii")

    def tell(event: str, **more: Any) -> None:
        stream.write(json.dumps({"event": event, **more}) + "\n")
        stream.flush()

    try:
        release = installed_release()
        loader = _start(job)
    except Refused as error:
        tell("refused", reason=str(error))
        return
    except ImportError as error:
        tell("refused", reason=f"the vLLM in {sys.executable} cannot be imported: {error}")
        return
    tell("ready", release=release, libraries=_libraries())
    for model in job["models"]:
        tell("start", model=model["index"])
        result = loader.load(model["folder"])
        tell("done", model=model["index"], result=result)
    tell("end")


def _libraries() -> str:
    """What else the outcome may depend on: transformers reads the configs."""
    installed = [f"{name} {version(name)}" for name in ("torch", "transformers")]
    return ", ".join([f"Python {platform.python_version()}", *installed])


def _start(job: dict[str, Any]) -> Any:
    """Import torch and vLLM with the platform in place."""
    from .adapters import prepare
    from .gpus import CPU
    from .loading import Loader
    from .platforms import simulate

    simulate(job["gpu"], job["tensor_parallel"])
    prepare(gpu=job["gpu"] != CPU)
    return Loader(job["tensor_parallel"])


def _die_with_parent() -> None:
    """Ask Linux to end this process with the one that started it, even if that one is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
