"""Which tensor-parallel sizes a model's layers can be split into.

Source: vLLM 0.33.0, model_executor/layers/linear.py (divide, QKVParallelLinear), and the
`create_weights` of the schemes; fused_moe for experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.findings import Outcome
from quantgate.quantization.observed import observe
from quantgate.quantization.scheme import Layout, Strategy
from quantgate.quantization.transforms import ONLINE
from quantgate.vllm.loading import Slicing, slicing_of
from quantgate.vllm.state_space import obstacles_of
from quantgate.vllm.transforms import applied

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.model import Model
    from quantgate.quantization.scheme import Scheme

USUAL_SIZES = (1, 2, 4, 8, 16)
_QKV = frozenset({"q_proj", "k_proj", "v_proj", "qkv_proj"})


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why one module cannot be split.

    `expected` is what must hold, `found` the numbers that do not.
    """

    module: str
    expected: str
    found: str
    outcome: Outcome


def obstacles(model: Model, size: int) -> Iterator[Obstacle]:
    """What stands in the way of `size` ranks, module by module."""
    if size == 1:
        return
    # HadamardTransform (compressed_tensors/transform/module.py) refuses more than one rank.
    for module, transform in applied(model, ONLINE):
        what = f"the transform {transform.weight_module}"
        yield Obstacle(module, "one rank, or no transform at run time", what, Outcome.FAILS)
    heads = _heads(model.checkpoint.config)
    seen: dict[Any, tuple[Obstacle, ...]] = {}
    for module in model.linears:
        space = model.state_spaces.get(module)
        if space is not None:
            for expected, what, outcome in obstacles_of(space, model, module, size):
                yield Obstacle(module, expected, what, outcome)
            continue
        leaf = module.rpartition(".")[2]
        slicing = slicing_of(module)
        scheme = model.schemes.get(module)
        own = observe(model.modules[module])
        known = model.sizes(module)
        n, k = known.n or own.n, known.k or own.k
        key = (leaf, slicing, scheme, n, k)
        if key not in seen:
            if leaf in _QKV:
                seen[key] = tuple(_of_heads(leaf, heads, size))
            else:
                seen[key] = tuple(_of_axes(leaf, slicing, scheme, (n, k), size=size))
        for found in seen[key]:
            yield Obstacle(module, found.expected, found.found, found.outcome)


def working_sizes(model: Model) -> tuple[int, ...]:
    """The usual sizes into which every layer can be split."""
    return tuple(s for s in USUAL_SIZES if next(obstacles(model, s), None) is None)


def _heads(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """(attention heads, key-value heads) of the text model."""
    text = config.get("text_config")
    source = text if isinstance(text, dict) else config
    heads = source.get("num_attention_heads")
    kv = source.get("num_key_value_heads", heads)
    if type(heads) is int and type(kv) is int and heads > 0 and kv > 0:
        return heads, kv
    return None


def _of_axes(
    leaf: str,
    slicing: Slicing,
    scheme: Scheme | None,
    shape: tuple[int | None, int | None],
    *,
    size: int,
) -> Iterator[Obstacle]:
    n, k = shape
    row = slicing is Slicing.ROW or (slicing is Slicing.EXPERTS and leaf in {"down_proj", "w2"})
    column = slicing is Slicing.COLUMN or (slicing is Slicing.EXPERTS and not row)
    if row and k:
        if k % size:
            yield _indivisible(f"K = {k}", size)
        elif scheme is not None:
            yield from _of_input(k // size, scheme, size, k)
    elif column and n and leaf != "lm_head":
        if n % size:
            yield _indivisible(f"N = {n}", size)
        elif scheme is not None and scheme.block is not None and (n // size) % scheme.block[0]:
            yield Obstacle(
                "",
                f"N / {size} is a multiple of {scheme.block[0]}",
                f"{n} / {size} = {n // size}",
                Outcome.FAILS,
            )


def _of_heads(leaf: str, heads: tuple[int, int] | None, size: int) -> Iterator[Obstacle]:
    if heads is None:
        return
    q, kv = heads
    if leaf in {"q_proj", "qkv_proj"} and q % size:
        yield _indivisible(f"{q} attention heads", size)
    if leaf in {"k_proj", "qkv_proj"} and kv % size and size % kv:
        yield Obstacle(
            "",
            f"{size} ranks divide the key-value heads, or are a multiple of them",
            f"{kv} key-value heads",
            Outcome.FAILS,
        )


def _of_input(part: int, scheme: Scheme, size: int, k: int) -> Iterator[Obstacle]:
    """A row-parallel layer's share of K must hold whole groups, blocks and words."""
    grouped = scheme.strategy in {Strategy.GROUP, Strategy.TENSOR_GROUP}
    unit = scheme.group_size if grouped else scheme.block[1] if scheme.block else None
    per_word = scheme.layout in {Layout.GPTQ, Layout.PACKED} and 32 % scheme.bits == 0
    unit = unit or (32 // scheme.bits if per_word else None)
    if unit and part % unit:
        found = f"{k} / {size} = {part}"
        yield Obstacle("", f"K / {size} is a multiple of {unit}", found, Outcome.FAILS)


def _indivisible(what: str, size: int) -> Obstacle:
    return Obstacle("", f"divisible by {size}", what, Outcome.FAILS)
