"""vLLM's weight tracking, switched on for quantized models too, and told instead of raised.

vLLM asks after loading whether every parameter got something, by default of unquantized models
only. Since 0.32 an option turns it on for the others (model_loader/default_loader.py,
`enable_weights_track`). Where it raises, the model would never speak, though vLLM as it is served
does load it: so the names are kept, and the load goes on.
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from typing import Any

_OPTION = "enable_weights_track"
_NAMES = re.compile(r"not initialized from checkpoint: (\{.*\})", re.DOTALL)
_names: list[str] = []


def switch_on() -> dict[str, Any]:
    """Options for vLLM; empty where the release has no such option."""
    loader: Any = import_module("vllm.model_executor.model_loader.default_loader")
    kind = loader.DefaultModelLoader
    if _OPTION not in inspect.getsource(kind.__init__):
        return {}
    original = kind.track_weights_loading
    if getattr(original, "keeps_names", False):
        return {"model_loader_extra_config": {_OPTION: True}}

    def track(*arguments: Any, **more: Any) -> None:
        try:
            original(*arguments, **more)
        except ValueError as error:
            names = names_in(str(error))
            if not names or not more.get("quantized", True):
                raise
            _names.extend(names)

    track.keeps_names = True  # type: ignore[attr-defined]
    kind.track_weights_loading = track
    return {"model_loader_extra_config": {_OPTION: True}}


def not_loaded() -> list[str]:
    """Parameters that nothing was loaded into, as vLLM names them."""
    return sorted(_names)


def names_in(message: str) -> list[str]:
    """The names that the error lists, or none if it is another error."""
    match = _NAMES.search(message)
    if match is None:
        return []
    try:
        return sorted(map(str, ast.literal_eval(match[1])))
    except (ValueError, SyntaxError):
        return []
