"""GPTQ declarations (AutoGPTQ, GPTQModel): vLLM 0.33.0, layers/quantization/auto_gptq.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration, Problem, ProblemKind, Reader
from quantgate.quantization.scheme import Layout, Scheme, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

SUPPORTED = ((4, True), (8, True))
# Up to 0.19 gptq.py took what Marlin could not, with ExLlama's kernels.
EXLLAMA_BITS = (2, 3, 4, 8)
MARLIN_ONLY = (0, 23)
NO_ACT_ORDER = (0, 30)  # 0.27.1 still loads it
GROUP_SIZES = (-1, 32, 64, 128)  # marlin_utils.py MARLIN_SUPPORTED_GROUP_SIZES


@dataclass(frozen=True, slots=True)
class DynamicRule:
    """One entry of GPTQModel's `dynamic`: a regex on vLLM's module names, in dictionary order.

    `-:` leaves the module dense; `+:` or nothing overrides bits, group_size, desc_act or sym.
    """

    pattern: str
    skip: bool
    overrides: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class GptqDeclaration(Declaration):
    """The keys of a GPTQ block that vLLM reads; None where one is missing or unusable."""

    bits: int | None
    group_size: int | None
    desc_act: bool | None
    sym: bool | None
    dynamic: tuple[DynamicRule, ...]
    lm_head: bool
    modules: tuple[str, ...]

    def scheme(self, overrides: Mapping[str, Any] | None = None) -> Scheme | None:
        """The scheme of a module, with the overrides of a `dynamic` rule applied."""
        changed = overrides or {}
        bits = changed.get("bits", self.bits)
        group_size = changed.get("group_size", self.group_size)
        if not _usable(bits) or not _usable(group_size):
            return None
        sym = changed.get("sym", self.sym)
        return qweight_scheme(Layout.GPTQ, bits, group_size, symmetric=sym is not False)


def _usable(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31


def qweight_scheme(layout: Layout, bits: int, group_size: int, *, symmetric: bool) -> Scheme | None:
    """The scheme of a GPTQ or AWQ module; a group size of -1 is one group per output channel."""
    if bits not in {2, 3, 4, 5, 6, 7, 8} or (group_size != -1 and group_size < 1):
        return None
    strategy = Strategy.CHANNEL if group_size == -1 else Strategy.GROUP
    size = None if group_size == -1 else group_size
    return Scheme(
        layout,
        bits,
        strategy=strategy,
        group_size=size,
        symmetric=symmetric,
        scale_name="scales",
        zero_points_stored=True,
    )


def parse(raw: Mapping[str, Any], file: str, path: str) -> GptqDeclaration:
    """Read a GPTQ block and note what vLLM refuses."""
    reader = Reader(raw)
    bits = reader.integer("bits")
    group_size = reader.integer("group_size")
    desc_act = reader.boolean("desc_act")
    sym = reader.boolean("sym")
    lm_head = reader.boolean("lm_head", default=False)
    modules = reader.strings("modules_in_block_to_quantize")
    if bits is not None and sym is not None and (bits, sym) not in SUPPORTED:
        sym_is_at_fault = (bits, True) in SUPPORTED
        reader.note(
            ProblemKind.VALUE,
            "sym" if sym_is_at_fault else "bits",
            "true" if sym_is_at_fault else "4 or 8",
            f"Unsupported quantization config: bits={bits}, sym={sym}",
            since=() if bits not in EXLLAMA_BITS else MARLIN_ONLY,
        )
    if desc_act and group_size not in {-1, None}:
        reader.note(
            ProblemKind.ACT_ORDER,
            "desc_act",
            "false, or group_size -1",
            "GPTQ group activation ordering (desc_act=True) is no longer supported",
            since=NO_ACT_ORDER,
        )
    if group_size is not None and group_size not in GROUP_SIZES:
        reader.note(
            ProblemKind.VALUE,
            "group_size",
            " or ".join(str(g) for g in GROUP_SIZES),
            f"Marlin does not support group_size = {group_size}",
            since=MARLIN_ONLY if group_size > 0 else (),
        )
    dynamic, problems = _dynamic(raw.get("dynamic"))
    return GptqDeclaration(
        method="gptq",
        file=file,
        path=path,
        raw=raw,
        problems=(*reader.problems, *problems),
        bits=bits,
        group_size=group_size,
        desc_act=desc_act,
        sym=sym,
        dynamic=dynamic,
        lm_head=bool(lm_head),
        modules=modules,
    )


def _dynamic(value: object) -> tuple[tuple[DynamicRule, ...], tuple[Problem, ...]]:
    if value is None:
        return (), ()
    if not isinstance(value, dict):
        problem = Problem(ProblemKind.VALUE, "dynamic", "an object", repr(value)[:60], "TypeError")
        return (), (problem,)
    rules, problems = [], []
    for pattern, overrides in value.items():
        skip = pattern.startswith("-:")
        if not isinstance(overrides, dict) and not skip:
            problems.append(
                Problem(
                    ProblemKind.VALUE,
                    f"dynamic.{pattern}",
                    "an object",
                    repr(overrides)[:60],
                    "AttributeError: object has no attribute 'get'",
                )
            )
            continue
        regex = pattern.removeprefix("-:") if skip else pattern.removeprefix("+:")
        rules.append(DynamicRule(regex, skip, overrides if isinstance(overrides, dict) else {}))
    return tuple(rules), tuple(problems)
