"""Methods that vLLM knows and whose tensors quantgate does not: only their keys are checked.

Source: vLLM 0.33.0, layers/quantization/torchao.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration, ProblemKind, Reader

if TYPE_CHECKING:
    from collections.abc import Mapping


def parse(raw: Mapping[str, Any], method: str, file: str, path: str) -> Declaration:
    """Check the keys that the method cannot do without."""
    reader = Reader(raw)
    if method == "torchao" and "quant_type" not in raw:
        error = "TorchAO: quant_type must be specified"
        reader.note(ProblemKind.MISSING, "quant_type", "quant_type", error)
    return Declaration(
        method=method,
        file=file,
        path=path,
        raw=raw,
        problems=tuple(reader.problems),
        modelled=False,
    )
