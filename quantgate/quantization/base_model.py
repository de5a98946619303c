"""The base model as a witness: the true size of every module, and which modules must exist.

It works for any architecture, also for one that nobody knows: the headers of the model that was
quantized say what a quantized copy must hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quantgate.checkpoint.tensor_names import split_name
from quantgate.quantization.expected import FLOATS
from quantgate.quantization.observed import is_quantized
from quantgate.quantization.scheme import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quantgate.checkpoint import Checkpoint

    Leaves = Mapping[str, tuple[str, tuple[int, ...]]]

BASE = "the base model"
# Fewer modules in common than this share, and the base is some other model, or names its modules
# in another way: then it is no witness.
MINIMUM_OVERLAP = 0.5
# Types with one value per element: a base that is packed itself shows no sizes.
_WHOLE = frozenset({*FLOATS, "F8_E4M3", "I8"})
_BUFFERS = ("rotary_emb", "inv_freq", "masked_bias")


@dataclass(frozen=True)
class BaseModel:
    """The modules of a base model in vLLM's names.

    Attributes:
        source: What the user or the model card wrote, for messages.
        sizes: Module → (N, K) of its two-dimensional weight, if that is not packed.
        modules: Every module that owns a tensor.
        biased: Modules with a bias; none if the base is quantized itself, since GPTQ adds zeros.
        missing: Modules that the base has and the checkpoint has not, in the base's names.
        surplus: Modules that the checkpoint has and the base has not, in the checkpoint's names.
        overlap: Share of the base's modules that the checkpoint has, from 0 to 1.
    """

    source: str
    sizes: Mapping[str, tuple[int, int]]
    modules: frozenset[str]
    biased: frozenset[str]
    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    overlap: float

    @property
    def usable(self) -> bool:
        """Whether enough modules are common to believe it."""
        return self.overlap >= MINIMUM_OVERLAP


def read_base(
    base: Checkpoint, modules: Mapping[str, Leaves], canonical: Callable[[str], str | None]
) -> BaseModel:
    """Compare a base model's modules with a checkpoint's.

    Args:
        base: The base model.
        modules: The checkpoint's modules.
        canonical: Name → the one name of both, None for a module that vLLM drops.
    """
    theirs: dict[str, str] = {}
    sizes: dict[str, tuple[int, int]] = {}
    biased: set[str] = set()
    for tensor in base.tensors.values():
        module, leaf = split_name(tensor.name)
        name = canonical(module)
        if name is None or any(b in tensor.name for b in _BUFFERS):
            continue
        theirs.setdefault(name, module)
        if leaf == "bias":
            biased.add(name)
        if leaf == "weight" and len(tensor.shape) == 2 and tensor.dtype in _WHOLE:
            sizes[name] = (tensor.shape[0], tensor.shape[1])
    quantized = any(t.name.endswith((".qweight", ".weight_scale")) for t in base.tensors.values())
    ours = {n: m for m in modules if (n := canonical(m)) is not None}
    common = theirs.keys() & ours.keys()
    return BaseModel(
        base.source,
        sizes,
        frozenset(theirs),
        frozenset() if quantized else frozenset(biased),
        tuple(theirs[n] for n in theirs if n not in ours),
        tuple(m for n, m in ours.items() if n not in theirs and _is_real(modules[m])),
        len(common) / len(theirs) if theirs else 0.0,
    )


def _is_real(leaves: Leaves) -> bool:
    """Whether a module is more than a scale of the KV cache."""
    return is_quantized(leaves) or "weight" in leaves


def base_sizes(base: BaseModel, canonical: Callable[[str], str | None]) -> Callable[[str], Sizes]:
    """What the base model knows of a module's size."""

    def sizes(module: str) -> Sizes:
        name = canonical(module)
        found = base.sizes.get(name) if name is not None else None
        return Sizes(*found, BASE) if found else Sizes()

    return sizes
