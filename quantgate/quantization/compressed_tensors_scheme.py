"""compressed-tensors schemes: checking QuantizationArgs, and what vLLM makes of a combination.

Source: value rules from compressed-tensors 0.17.0, quant_args.py; the choice from vLLM 0.33.0,
layers/quantization/compressed_tensors/compressed_tensors.py _get_scheme_from_parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Problem, ProblemKind, Reader, shown
from quantgate.quantization.scheme import Activations, Layout, Scheme, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

# Formats in which vLLM looks at the activations (is_activation_quantization_format).
ACTIVATION_FORMATS = frozenset(
    {"naive-quantized", "int-quantized", "float-quantized", "nvfp4-pack-quantized"}
)
STRATEGIES = frozenset({"tensor", "channel", "group", "block", "token", "tensor_group"})
_ARGUMENTS = frozenset(
    {
        *("num_bits", "type", "symmetric", "group_size", "strategy", "block_structure"),
        *("dynamic", "actorder", "scale_dtype", "zp_dtype", "observer", "observer_kwargs"),
    }
)
# The library has them since 0.13.0, and vLLM that release since 0.14.0 (0.13.0 pins 0.12.2).
_LATE_ARGUMENTS = frozenset({"scale_dtype", "zp_dtype"})


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked QuantizationArgs; `strategy` and `actorder` are in lower case."""

    bits: int
    type: str
    strategy: str
    group_size: int | None
    block: tuple[int, int] | None
    symmetric: bool
    dynamic: bool
    actorder: str
    scale_dtype: str


def read_arguments(
    value: Mapping[str, Any], prefix: str, *, activations: bool
) -> tuple[Arguments | None, list[Problem]]:
    """Check one QuantizationArgs; None where the library or vLLM refuses it, lately at least."""
    reader = Reader(value, prefix)
    for name in value:
        if name not in _ARGUMENTS and name not in {"quantized_values", "is_mx"}:
            reader.note(
                ProblemKind.VALUE,
                str(name),
                "absent",
                "ValidationError: Extra inputs are not permitted",
            )
        elif name in _LATE_ARGUMENTS:
            reader.note(
                ProblemKind.VALUE,
                str(name),
                "absent",
                "ValidationError: Extra inputs are not permitted",
                until=(0, 14),
            )
    bits = value.get("num_bits", 8)
    kind = value.get("type", "int")
    size = value.get("group_size")
    strategy = value.get("strategy")
    dynamic = value.get("dynamic", False)
    block = value.get("block_structure")
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 16:
        reader.note(ProblemKind.VALUE, "num_bits", "a number of bits", "ValidationError: num_bits")
    if kind not in ("int", "float"):
        reader.note(ProblemKind.VALUE, "type", "int or float", "ValidationError: type")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < -1):
        reader.note(
            ProblemKind.VALUE, "group_size", "-1 or a positive number", "Invalid group size"
        )
    if strategy is None:
        strategy = "tensor" if size is None else "channel" if size == -1 else "group"
        if activations and dynamic is True and size is None:
            strategy = "token"
    if not isinstance(strategy, str) or strategy.lower() not in STRATEGIES | {"attn_head"}:
        expected = ", ".join(sorted(STRATEGIES))
        reader.note(ProblemKind.VALUE, "strategy", expected, "ValidationError: strategy")
    if not all(p.until for p in reader.problems):
        return None, reader.problems
    strategy = strategy.lower()
    if strategy in {"group", "tensor_group"} and (size is None or size <= 0):
        reader.note(
            ProblemKind.MISSING if size is None else ProblemKind.VALUE,
            "group_size",
            "a positive number",
            f"strategy {strategy} requires group_size to be set to a positive value",
        )
    if size is not None and size > 0 and strategy not in {"group", "tensor_group", "block"}:
        reader.note(
            ProblemKind.VALUE,
            "strategy",
            "group, since group_size is given",
            f"group_size requires strategy to be set to group, found {strategy}",
        )
    if strategy == "block" and _pair(block) is None:
        reader.note(
            ProblemKind.MISSING if block is None else ProblemKind.VALUE,
            "block_structure",
            "[rows, columns]",
            "Block strategy requires block_structure",
        )
    actorder = _actorder(value.get("actorder"))
    # "static" and "weight" only say how GPTQ calibrated; the library takes them without groups
    # since 0.16.0, and vLLM 0.23.0 is the first release with facts that has it.
    if actorder in {"static", "weight"} and strategy not in {"group", "tensor_group"}:
        reader.note(
            ProblemKind.VALUE,
            "actorder",
            "null, since the strategy is not group",
            "Must use group quantization strategy in order to apply activation ordering",
            until=(0, 23),
        )
    if actorder in {"group", "dynamic"}:
        reader.note(
            ProblemKind.ACT_ORDER,
            "actorder",
            "static, weight or null",
            "group/dynamic activation ordering is no longer supported",
            since=(0, 30),
        )
    if not all(p.until for p in reader.problems):
        return None, reader.problems
    return (
        Arguments(
            bits,
            kind,
            strategy,
            size if size and size > 0 else None,
            _pair(block),
            value.get("symmetric", True) is not False,
            dynamic in (True, "local"),
            actorder,
            str(value.get("scale_dtype") or ""),
        ),
        reader.problems,
    )


def _actorder(value: object) -> str:
    if value is True:
        return "group"
    return value.lower() if isinstance(value, str) else ""


def _pair(value: object) -> tuple[int, int] | None:
    if isinstance(value, list) and len(value) == 2 and all(type(v) is int and v > 0 for v in value):
        return value[0], value[1]
    return None


def select_scheme(
    w: Arguments, a: Arguments | None, layout: str, *, outputs: bool = False
) -> tuple[Scheme | None, str]:
    """The scheme vLLM takes, first match wins; otherwise (None, the error it raises).

    `outputs` says that the outputs are quantized too (`output_activations`).
    """
    error = "NotImplementedError: No compressed-tensors compatible scheme was found."
    static_symmetric = w.symmetric and not w.dynamic
    if _is_fp4(w):
        return _select_fp4(w, a)
    if (w.type, w.bits, w.strategy, w.group_size) == ("float", 8, "group", 32) and (
        "uint8" in w.scale_dtype
    ):
        return _scheme(Layout.MXFP8, w, a), ""
    if a is not None and _is_w4a8_fp8(w, a):
        return _scheme(Layout.PACKED, w, a), ""  # in any format
    if w.strategy in {"channel", "group"} and not w.dynamic and layout == "pack-quantized":
        # Without activations neither type nor bits are looked at here.
        known = 2 <= w.bits <= 8 and (a is None or _takes_integers(w, a, outputs=outputs))
        return (_scheme(Layout.PACKED, w, a), "") if known else (None, error)
    if layout not in ACTIVATION_FORMATS:
        return None, error
    if w.type == "float" and w.bits == 8 and static_symmetric:
        plain = w.strategy in {"tensor", "channel", "block"}
        inputs = a is None or a.dynamic or (a.strategy == "tensor" and a.symmetric)
        return (_scheme(Layout.FP8, w, a), "") if plain and inputs else (None, error)
    if a is None:
        return None, "AttributeError: 'NoneType' object has no attribute 'num_bits'"
    # The type of the activations is not looked at: FP8 ones make an INT8 layer all the same.
    int8_inputs = a.bits == 8 and (
        (a.dynamic and a.strategy == "token") or (not a.dynamic and a.strategy == "tensor")
    )
    if w.type == "int" and static_symmetric and int8_inputs:
        if w.bits == 8 and w.strategy in {"tensor", "channel"}:
            return _scheme(Layout.INT8, w, a), ""
        if w.bits == 4 and w.strategy in {"group", "channel"} and a.dynamic:
            return _scheme(Layout.INT8, w, a), ""
    return None, error


def _is_w4a8_fp8(w: Arguments, a: Arguments) -> bool:
    weights = (w.type, w.bits, w.strategy, w.symmetric, w.dynamic)
    inputs = (a.type, a.bits, a.strategy, a.dynamic)
    return weights == ("int", 4, "group", True, False) and inputs == ("float", 8, "token", True)


def _takes_integers(w: Arguments, a: Arguments, *, outputs: bool) -> bool:
    """Whether packed integers meet integer inputs that a class takes: WNA8Int, WNA4Int, WNA8O8."""
    if (w.type, a.type) != ("int", "int"):
        return False
    if not a.dynamic:
        return outputs and (a.bits, a.strategy) == (8, "tensor")
    return a.symmetric and a.strategy in {"token", "group"} and a.bits in {4, 8}


def is_marlin_24(w: Arguments, a: Arguments | None, layout: str) -> bool:
    """Whether it is the format of 2:4 sparse integers, which releases before 0.16 have."""
    integers = (w.type, w.symmetric, a) == ("int", True, None) and w.bits in {4, 8}
    return layout == "marlin-24" and integers and w.strategy in {"channel", "group"}


def _is_fp4(w: Arguments) -> bool:
    """Whether the weights are NVFP4 or MXFP4; other 4-bit floats are looked at like integers."""
    return (w.type, w.bits, w.symmetric) == ("float", 4, True) and (w.strategy, w.group_size) in {
        ("tensor_group", 16),
        ("group", 32),
    }


def _select_fp4(w: Arguments, a: Arguments | None) -> tuple[Scheme | None, str]:
    if w.strategy == "group":
        return _scheme(Layout.MXFP4, w, a), ""
    if a is None or (a.type, a.bits, a.strategy) == ("float", 4, "tensor_group"):
        return _scheme(Layout.NVFP4, w, a), ""
    return None, "For NVFP4 weights, input quantization must also be NVFP4 format"


def _scheme(layout: Layout, w: Arguments, a: Arguments | None) -> Scheme:
    inputs = None
    if a is not None:
        inputs = Activations(a.bits, a.type, Strategy(a.strategy), a.dynamic, a.symmetric)
    # Activations of packed MX weights are quantized on the fly, whatever the block says.
    if layout in {Layout.MXFP4, Layout.MXFP8} and a is not None:
        inputs = Activations(a.bits, a.type, Strategy(a.strategy), dynamic=True)
    return Scheme(
        layout,
        w.bits,
        w.type,
        Strategy(w.strategy),
        w.group_size,
        w.block,
        w.symmetric,
        inputs,
    )


def activations_text(a: Arguments | None) -> str:
    """Input quantization as short text."""
    if a is None:
        return "no input activations"
    return f"{a.type}{a.bits} {'dynamic' if a.dynamic else 'static'} activations"


def format_that_works(w: Arguments, a: Arguments | None, layout: str) -> str | None:
    """A format other than `layout` for which vLLM has a scheme, None if no format helps."""
    plain_formats = ("float-quantized", "int-quantized")
    for candidate in ("pack-quantized", *plain_formats[:: 1 if w.type == "float" else -1]):
        plain = candidate == "pack-quantized"
        wanted = plain is (w.bits < 8 or (w.type == "int" and a is None))
        if candidate != layout and wanted and select_scheme(w, a, candidate)[0] is not None:
            return candidate
    return None


def what_would_do(w: Arguments, a: Arguments | None) -> str:
    """What to write instead, as short text."""
    works = format_that_works(w, a, "")
    return f"format {shown(works)}" if works else "a combination that vLLM has a scheme for"
