"""Which Linear layers vLLM gives a declared transform to.

Source: vLLM 0.10.2 to 0.33.0, compressed_tensors/transform/linear.py
get_linear_transform_schemes; compressed-tensors utils/match.py is_match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.quantization.compressed_tensors import CompressedTensorsDeclaration
from quantgate.vllm.patterns import equal_or_regex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from quantgate.model import Model
    from quantgate.quantization.transforms import Transform


def transforms_of(model: Model) -> tuple[Transform, ...]:
    """The declared transforms, none for other methods."""
    declaration = model.declaration
    if not isinstance(declaration, CompressedTensorsDeclaration):
        return ()
    return declaration.transforms


def applied(model: Model, locations: Collection[str]) -> Iterator[tuple[str, Transform]]:
    """(Linear module of the checkpoint, transform) for the transforms at these locations."""
    wanted = [t for t in transforms_of(model) if t.location in locations]
    for module in model.linears if wanted else ():
        names = {module, model.naming.module(module) or module}
        for transform in wanted:
            if _listed(transform.targets, names) and not _listed(transform.ignore, names):
                yield module, transform


def _listed(entries: tuple[str, ...], names: set[str]) -> bool:
    return any(e == "Linear" or any(equal_or_regex(e, name) for name in names) for e in entries)
