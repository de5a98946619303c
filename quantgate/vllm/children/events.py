"""The events of a child, as JSON values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from quantgate.vllm.children.process import Stopped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.vllm.children.process import Child


def events(child: Child) -> Iterator[Any]:
    """One value a line, as they come.

    Raises:
        Stopped: The child died, went beyond a limit, or told something that is not JSON.
    """
    for line in child.lines():
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            raise Stopped("told something that is not JSON") from None
