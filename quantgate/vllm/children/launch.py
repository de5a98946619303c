"""Starts a child under the Python that has vLLM, and says why where it does not come up."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from quantgate.vllm.children.process import Child

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quantgate.vllm.children.process import Limits

ENTRY = Path(__file__).parent / "inside" / "start.py"

_KEPT = (*("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "TZ"),)


def launch(
    python: str, module: str, job: Path, limits: Limits, environ: Mapping[str, str]
) -> Child:
    """Start `module.serve(job, events)` in a new process group, in the folder of the job.

    Args:
        python: A path, or a name to be found on PATH.
        module: A module of quantgate's that imports nothing of quantgate but what runs in a child.
        job: A JSON file for the child.
        limits: What it may take.
        environ: The whole environment of the child.

    Raises:
        OSError: There is no such program, or it cannot be started.
    """
    # The child runs in a folder of its own; and a link is not followed, it may be a venv's.
    program = Path(shutil.which(python) or python).absolute()
    command = [str(program), "-B", str(ENTRY), module, str(job)]
    return Child(command, limits, environ, job.parent)


def environment(scratch: Path) -> dict[str, str]:
    """What vLLM needs, and nothing that could give it a token, a network or a plugin."""
    home = str(scratch / "home")
    return {
        **{k: os.environ[k] for k in _KEPT if k in os.environ},
        "TMPDIR": str(scratch),
        "HF_HOME": home,
        "XDG_CACHE_HOME": home,
        "VLLM_CACHE_ROOT": home,
        "VLLM_CONFIG_ROOT": home,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "DO_NOT_TRACK": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_PLUGINS": "",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }


def before_ready(why: str, log: Sequence[str]) -> str:
    """Why a child never was ready; the last line of the log is where a traceback says what it was.

    The text is one clause, printable, without a full stop.
    """
    last = next((line.strip() for line in reversed(log) if line.strip()), "")
    said = f"; it said: {ascii(last)[1:-1]}" if last else ""
    return f"{why} before it was ready{said}"
