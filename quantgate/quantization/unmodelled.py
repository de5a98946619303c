"""Methods that vLLM knows and whose tensors quantgate does not: only their keys are checked.

Source: vLLM 0.33.0, layers/quantization/{inc/inc,torchao}.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration, ProblemKind, Reader, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOT_FOUND = "Cannot find any of {} in the model's quantization config."
# Method → (keys of which one is required, the error without it).
_REQUIRED: Mapping[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "inc": ((("bits",), ""), (("group_size",), "")),
    "torchao": ((("quant_type",), "TorchAO: quant_type must be specified"),),
}


def parse(raw: Mapping[str, Any], method: str, file: str, path: str) -> Declaration:
    """Check the keys that the method cannot do without."""
    reader = Reader(raw)
    name = "inc" if method == "auto-round" else method
    for keys, error in _REQUIRED.get(name, ()):
        if reader.find(*keys) is None:
            text = error or _NOT_FOUND.format(list(keys))
            reader.note(ProblemKind.MISSING, keys[0], " or ".join(keys), text)
    if name == "inc" and raw.get("sym") is False and "awq" not in str(raw.get("packing_format")):
        error = f"INC quantization with bits={shown(raw.get('bits'))}, sym=False is not supported"
        if raw.get("data_type", "int") == "int":
            reader.note(ProblemKind.VALUE, "sym", "true, or AWQ packing", error)
    return Declaration(
        method=method,
        file=file,
        path=path,
        raw=raw,
        problems=tuple(reader.problems),
        modelled=False,
    )
