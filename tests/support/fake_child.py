"""A stand-in for a Python with vLLM: an executable that speaks the child's protocol.

`vllm_python(folder, script)` makes it; in the script, `job`, `tell(event, **more)` and
`done(index, **result)` are at hand.
"""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = """#!{python}
import json, os, signal, subprocess, sys, time
job = json.load(open(sys.argv[-2]))
stream = os.fdopen(int(sys.argv[-1]), "w")
def tell(event, **more):
    stream.write(json.dumps({{"event": event, **more}}) + "\\n"); stream.flush()
def ready(release="0.32.0"):
    tell("ready", release=release, libraries="torch 2.13.0")
def done(index, **result):
    tell("start", model=index)
    tell("done", model=index, result={{"outcome": "loads", **result}})
"""


def vllm_python(folder: Path, script: str) -> str:
    """The path of an executable that runs the script."""
    path = folder / "vllm-python"
    path.write_text(_HEAD.format(python=sys.executable) + textwrap.dedent(script))
    path.chmod(0o755)
    return str(path)
