"""How vLLM splits a state space (Mamba2) among ranks.

`in_proj` holds five sections side by side: gate, x, B, C and dt. B and C are split by groups,
everything else by heads. Where the ranks are a multiple of a single group, each gets a copy of it,
and a loader of its own puts the sections together. Only the leaves that it was given to know of the
copies; every other one is cut as if the file held them too, which it does not.

Source: vLLM 0.32.0, model_executor/layers/mamba/mamba_mixer2.py, and the same file of 0.10.2 to
0.33.0; each outcome with 0.32.0 was seen in its own loader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.findings import Outcome
from quantgate.quantization.expected import expected_tensors
from quantgate.quantization.observed import observe
from quantgate.quantization.scheme import Layout, Strategy
from quantgate.vllm.structure import count, text_config

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from quantgate.model import Leaves, Model
    from quantgate.quantization.scheme import Scheme

_OWN = frozenset({"A_log", "D", "dt_bias"})
# Of Falcon H1, Bamba and Granite's hybrids, of Nemotron H and Mamba2, and of Zamba2.
_GROUPS = ("mamba_n_groups", "n_groups", "mamba_ngroups")
# Up to 0.10 no quantized model with state spaces is split at all, up to 0.13 none whose groups are
# copied. What lies between two releases that were looked at counts as the newer one.
_NOT_SPLIT, _NOT_COPIED = (0, 11), (0, 14)
# 0.16 has one path for all and gives the weight alone a loader that knows the sections; mended
# before 0.19 (vllm-project/vllm#34476).
_ONE_PATH = ((0, 16), (0, 17))
# 0.30 gives the loader of copied groups to the weight alone, 0.32 to these as well.
_SCALES, _SCALES_SINCE = ("weight_scale", "input_scale"), (0, 31)
_WORDS_OF_ROWS = frozenset({Layout.AWQ, Layout.QUARK_INT4})
_ZERO_POINTS_OF_ROWS = frozenset({Layout.GPTQ, Layout.PACKED})
# Loaded in other ways, or not at all with more than one rank.
_OPEN = frozenset({Layout.TORCHAO, Layout.BNB_4BIT, Layout.BNB_INT8, Layout.GPT_OSS})


@dataclass(frozen=True, slots=True)
class StateSpace:
    """The sizes of one state space.

    Attributes:
        heads: Heads, as many as `A_log` has values.
        groups: Groups of B and C by config.json, None where it does not say.
        inner: Rows of the gate, and of x.
        of_groups: Rows of B, and of C, of all groups.
    """

    heads: int
    groups: int | None
    inner: int
    of_groups: int

    @property
    def sections(self) -> tuple[int, ...]:
        """Rows of gate, x, B, C and dt in `in_proj`."""
        return (self.inner, self.inner, self.of_groups, self.of_groups, self.heads)

    def is_copied(self, size: int) -> bool:
        """Whether each of `size` ranks gets a copy of the only group."""
        return self.groups == 1 and size > 1

    def share(self, size: int) -> int:
        """Rows of `in_proj` on one of `size` ranks."""
        copies = 2 * self.of_groups * (size - 1) if self.is_copied(size) else 0
        return (sum(self.sections) + copies) // size


def state_spaces(
    config: Mapping[str, Any], modules: Mapping[str, Leaves]
) -> Mapping[str, StateSpace]:
    """Name of the `in_proj` → state space, of all whose sizes are known.

    A state space of the first kind (Mamba) has a matrix `A_log`, and a gated delta net no `D`.

    Args:
        config: The content of config.json.
        modules: Module name → leaf → (dtype, shape).
    """
    found = {}
    groups = count(text_config(config), *_GROUPS)
    for module, leaves in modules.items():
        if not leaves.keys() >= _OWN:
            continue
        heads = leaves["A_log"][1]
        channels = modules.get(f"{module}.conv1d", {}).get("weight", ("", ()))[1]
        rows = observe(modules.get(f"{module}.in_proj", {})).n
        if len(heads) != 1 or not channels or rows is None:
            continue
        inner = rows - channels[0] - heads[0]
        of_groups, odd = divmod(channels[0] - inner, 2)
        if min(inner, of_groups, heads[0]) > 0 and not odd:
            found[f"{module}.in_proj"] = StateSpace(heads[0], groups or None, inner, of_groups)
    return found


def obstacles_of(
    space: StateSpace, model: Model, module: str, size: int
) -> Iterator[tuple[str, str, Outcome]]:
    """What stands in the way of `size` ranks (2 or more) at the `in_proj` of a state space.

    (what must hold, the numbers that do not, what vLLM does), at most one.
    """
    groups, scheme = space.groups, model.schemes.get(module)
    version, copied = model.target.version, space.is_copied(size)
    if space.heads % size:
        yield f"divisible by {size}", f"{space.heads} heads of a state space", Outcome.FAILS
    elif groups is None:
        return
    elif groups % size and not copied:
        yield f"divisible by {size}, or 1", f"{groups} groups of a state space", Outcome.FAILS
    elif model.declaration is not None and version < (_NOT_COPIED if copied else _NOT_SPLIT):
        what = "one group in a quantized model" if copied else "a quantized state space"
        yield "one rank in this release", what, Outcome.FAILS
    elif copied or _ONE_PATH[0] <= version < _ONE_PATH[1]:
        leaves = model.modules[module]
        known = {"weight", *(_SCALES if version >= _SCALES_SINCE else ())}
        lost = _cut_elsewhere(leaves, scheme, sum(space.sections), known)
        fails = copied or "weight" not in leaves
        if lost:
            what = f"{lost} of a state space of {groups} group{'s' * (groups > 1)}"
            outcome = Outcome.FAILS if fails else Outcome.SILENT
            yield "one rank, or no tensor that is cut without regard to sections", what, outcome
    elif scheme is not None:
        yield from _cut_across(space, scheme, size)


def _cut_elsewhere(
    leaves: Leaves, scheme: Scheme | None, rows: int, known: Collection[str]
) -> str | None:
    """A tensor that the loader of sections does not know, or cannot cut into them."""
    if "bias" in leaves:
        return "bias"
    if scheme is None or scheme.layout in _OPEN:
        return None
    for tensor in expected_tensors(scheme, rows, None):
        if tensor.required:
            lengths = dict(zip(tensor.axes, tensor.shapes[0], strict=False))
            # Blocks and packed words lie along N as well, but there are fewer of them than rows.
            if lengths.get("N") != (rows if tensor.leaf in known else None):
                return tensor.leaf
    return None


def _cut_across(space: StateSpace, scheme: Scheme, size: int) -> Iterator[tuple[str, str, Outcome]]:
    """A section of which a rank's share does not hold whole blocks or packed words."""
    unit, outcome = 1, Outcome.FAILS
    if scheme.strategy is Strategy.BLOCK and scheme.block:
        unit = scheme.block[0]
    elif 32 % scheme.bits == 0 and (
        scheme.layout in _WORDS_OF_ROWS
        or (scheme.layout in _ZERO_POINTS_OF_ROWS and not scheme.symmetric)
    ):
        unit, outcome = 32 // scheme.bits, Outcome.SILENT
    for rows in space.sections:
        if rows // size % unit:
            what = f"each section of a state space / {size} is a multiple of {unit}"
            yield what, f"{rows} / {size} = {rows // size}", outcome
            return
