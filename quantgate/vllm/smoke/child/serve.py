"""The child's way: reads the job, loads one model, has it speak, writes one event a line.

```
{"event": "ready", "release": "0.32.0", "libraries": "…", "device": {"kind": "cpu", …}}
{"event": "refused", "reason": "..."}      instead of ready: nothing can be loaded here
{"event": "phase", "name": "load"}         then "generate", then "score"
{"event": "done", "result": {...}}
```

One model a process: what vLLM takes of a GPU comes back when the process ends.
"""

from __future__ import annotations

from typing import Any

from quantgate.vllm.children.inside.release import installed_release, libraries
from quantgate.vllm.children.inside.telling import begin, prepared


def serve(job_file: str, events: int) -> None:
    """Do the job in `job_file`, telling the file descriptor `events`."""
    job, tell = begin(job_file, events)
    ready = prepared(lambda: _start(job), tell)
    if ready is None:
        return
    release, device = ready
    tell("ready", release=release, libraries=libraries(), device=device)
    from .session import smoke

    tell("done", result=smoke(job, device["kind"], lambda name: tell("phase", name=name)))


def _start(job: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The release, and what vLLM would run on, if that is what was asked for."""
    release = installed_release()
    from .compiled import compiled_part
    from .devices import device

    found = device(job["device"], job["tensor_parallel"])
    compiled_part(found["kind"])
    return release, found
