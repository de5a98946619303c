"""What an exception of vLLM's says, whatever was tried."""

from __future__ import annotations

import re
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MESSAGE = 2000
REMOTE_CODE = re.compile(r"trust_remote_code|trust-remote-code|remote code|custom code")
NEEDS_REMOTE_CODE = "it needs remote code, which is refused and never run"


def described(error: BaseException) -> dict[str, str]:
    """Its class, what it says, and the innermost line of vLLM's, such as `linear.py:412`."""
    frames = extract_tb(error.__traceback__)
    own = [f for f in frames if "/vllm/" in f.filename] or list(frames)
    return {
        "exception": type(error).__name__,
        "message": str(error)[:MAX_MESSAGE],
        "where": f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "",
    }


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came of, at most 20 in all."""
    current: BaseException | None = error
    for _ in range(20):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__
