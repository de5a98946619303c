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

from typing import Any

from quantgate.vllm.children.inside.release import libraries
from quantgate.vllm.children.inside.telling import begin, prepared

from .adapters import supported_release


def serve(job_file: str, events: int) -> None:
    """Do the job in `job_file`, telling the file descriptor `events`."""
    job, tell = begin(job_file, events)
    ready = prepared(lambda: _start(job), tell)
    if ready is None:
        return
    release, loader = ready
    tell("ready", release=release, libraries=libraries())
    for model in job["models"]:
        tell("start", model=model["index"])
        result = loader.load(model["folder"], model["unread"])
        tell("done", model=model["index"], result=result)
    tell("end")


def _start(job: dict[str, Any]) -> tuple[str, Any]:
    """The release, and what loads: torch and vLLM are imported with the platform in place."""
    release = supported_release()
    from .adapters import prepare
    from .gpus import CPU
    from .loading import Loader
    from .platforms import simulate

    simulate(job["gpu"], job["tensor_parallel"])
    prepare(gpu=job["gpu"] != CPU)
    return release, Loader(job["tensor_parallel"])
