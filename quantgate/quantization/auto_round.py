"""AutoRound and INC declarations: vLLM 0.33.0, layers/quantization/inc.

The tensors are those of other methods: GPTQ or AWQ for integers, block FP8 and the MX formats of
compressed-tensors for floats. `extra_config` overrides bits, group size and symmetry by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration, ProblemKind, Reader, shown
from quantgate.quantization.gptq import GROUP_SIZES, qweight_scheme
from quantgate.quantization.scheme import Activations, Layout, Scheme, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKINGS = ("auto_round:auto_gptq", "auto_round:auto_awq")
FLOAT_PACKINGS = {"fp": "auto_round:fp8", "mx_fp": "auto_round:llm_compressor"}
BACKENDS = ("auto", "gptq", "gptq:marlin", "awq", "awq:marlin", "marlin")
GroupSize = int | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Settings:
    """What one module is declared to have; 16 bits and more are dense."""

    bits: int
    group_size: GroupSize
    sym: bool

    @property
    def dense(self) -> bool:
        """Whether the module is not quantized."""
        return self.bits >= 16

    def changed(self, overrides: Mapping[str, Any]) -> Settings:
        """With the usable values of an entry of `extra_config`."""
        bits, sym = overrides.get("bits"), overrides.get("sym")
        size = _group_size(overrides.get("group_size"))
        return Settings(
            bits if type(bits) is int else self.bits,
            self.group_size if size is None else size,
            sym if isinstance(sym, bool) else self.sym,
        )


DENSE = Settings(16, -1, sym=True)


@dataclass(frozen=True, kw_only=True)
class AutoRoundDeclaration(Declaration):
    """The keys of an AutoRound block that vLLM reads.

    Attributes:
        settings: Of every module that nothing else is said about; None where a value is missing.
        data_type: `int`, `fp` or a name with `mx_fp` in it.
        packing: How integers are packed.
        backend: Which kernel is asked for; its name can decide the packing too.
        blocks: Prefixes of the modules that are quantized, empty for all.
        extra: Name or pattern → overrides, in the block's order.
    """

    settings: Settings | None
    data_type: str
    packing: str
    backend: str
    blocks: tuple[str, ...]
    extra: Mapping[str, Mapping[str, Any]]

    def scheme(self, settings: Settings) -> Scheme | None:
        """The scheme of a module with these settings; None where vLLM has another or none."""
        size = settings.group_size
        if "mx_fp" in self.data_type:
            inputs = Activations(settings.bits, "float", Strategy.GROUP, dynamic=True)
            match settings.bits:
                case 4:
                    return Scheme(Layout.MXFP4, 4, "float", Strategy.GROUP, 32)
                case 8:
                    return Scheme(Layout.MXFP8, 8, "float", Strategy.GROUP, 32, activations=inputs)
            return None
        if self.data_type == "fp":
            if settings.bits != 8 or not isinstance(size, tuple) or min(size) < 1:
                return None
            return Scheme(
                Layout.FP8,
                8,
                "float",
                Strategy.BLOCK,
                block=size,
                activations=Activations(8, "float", Strategy.GROUP, dynamic=True),
                scale_name="weight_scale_inv",
            )
        # From 0.30 on widths other than 4 and 8 go to the kernels of humming, in the same tensors.
        if not isinstance(size, int):
            return None
        layout = Layout.GPTQ if "gptq" in self.packing + self.backend else Layout.AWQ
        scheme = qweight_scheme(layout, settings.bits, size, symmetric=settings.sym)
        return replace(scheme, symmetric=settings.sym) if scheme else None


def parse(raw: Mapping[str, Any], method: str, file: str, path: str) -> AutoRoundDeclaration:
    """Read an AutoRound or INC block and note what vLLM refuses."""
    reader = Reader(raw)
    bits = reader.integer("bits")
    size = _required_size(raw, reader)
    sym = reader.boolean("sym", default=True) is not False
    data_type = raw.get("data_type", "int")
    data_type = "fp" if data_type == "fp8" else data_type if isinstance(data_type, str) else ""
    family = "mx_fp" if "mx_fp" in data_type else data_type
    default = FLOAT_PACKINGS.get(family, PACKINGS[0])
    packing = raw.get("packing_format") or default
    backend_key = reader.find("backend", "vllm_backend") or "backend"
    backend = raw.get(backend_key, "auto")
    _allowed(reader, "data_type", family, ("int", "fp", "mx_fp"), "Unsupported data_type")
    packings = (*PACKINGS, *FLOAT_PACKINGS.values())
    if _allowed(reader, "packing_format", packing, packings, "Unsupported packing_format"):
        wanted = (FLOAT_PACKINGS[family],) if family in FLOAT_PACKINGS else PACKINGS
        if data_type != "" and (data_type in {"int", "fp", "mx_fp"}):
            error = f"INC {family} quantization only supports packing_format"
            _allowed(reader, "packing_format", packing, wanted, error)
    _allowed(reader, backend_key, backend, BACKENDS, "Unsupported backend")
    declaration = AutoRoundDeclaration(
        method=method,
        file=file,
        path=path,
        raw=raw,
        settings=None if bits is None or size is None else Settings(bits, size, sym),
        data_type=data_type,
        packing=packing if isinstance(packing, str) else "",
        backend=backend if isinstance(backend, str) else "",
        blocks=_blocks(raw, reader),
        extra=_extra(raw.get("extra_config"), reader),
    )
    if declaration.settings is not None:
        match family:
            case "int":
                _check_integers(declaration, declaration.settings, reader)
            case "fp" | "mx_fp":
                _check_floats(family, declaration.settings, reader)
    return replace(declaration, problems=tuple(reader.problems))


def _allowed(reader: Reader, key: str, value: object, allowed: tuple[str, ...], error: str) -> bool:
    if value in allowed:
        return True
    reader.note(ProblemKind.VALUE, key, " or ".join(allowed), f"{error}: {shown(value)}")
    return False


def _group_size(value: object) -> GroupSize | None:
    if type(value) is int:
        return value
    if isinstance(value, list) and len(value) == 2 and all(type(v) is int for v in value):
        return value[0], value[1]
    return None


def _required_size(raw: Mapping[str, Any], reader: Reader) -> GroupSize | None:
    if not isinstance(raw.get("group_size"), list):
        return reader.integer("group_size")
    size = _group_size(raw["group_size"])
    if size is None:
        error = "INC block-wise FP8 requires group_size to be a 2-D integer sequence"
        reader.note(ProblemKind.VALUE, "group_size", "an integer, or two", error)
    return size


def _blocks(raw: Mapping[str, Any], reader: Reader) -> tuple[str, ...]:
    key = reader.find("block_name_to_quantize", "to_quant_block_names")
    value = raw.get(key) if key else None
    if key is None or not isinstance(value, str):
        return reader.strings(key or "block_name_to_quantize")
    return tuple(value.split(","))


def _extra(value: object, reader: Reader) -> Mapping[str, Mapping[str, Any]]:
    if value is None:
        return {}
    entries = value if isinstance(value, dict) else {}
    usable = {k: v for k, v in entries.items() if isinstance(v, dict)}
    if not isinstance(value, dict) or len(usable) < len(entries):
        error = "AttributeError: object has no attribute 'get'"
        reader.note(ProblemKind.VALUE, "extra_config", "an object of objects", error)
    return usable


def _check_integers(declared: AutoRoundDeclaration, settings: Settings, reader: Reader) -> None:
    bits, size, sym = settings.bits, settings.group_size, settings.sym
    if bits not in {2, 3, 4, 5, 6, 7, 8}:
        reader.note(ProblemKind.VALUE, "bits", "2 to 8", f"Unsupported weight_bits: {bits}")
        return
    if not isinstance(size, int):
        error = "INC int quantization requires scalar group_size"
        reader.note(ProblemKind.VALUE, "group_size", "an integer", error)
        return
    if bits not in {4, 8}:
        return
    if "gptq" not in declared.packing + declared.backend:
        if bits == 8:
            reader.note(ProblemKind.VALUE, "bits", "4", "Unsupported num_bits = 8")
        return
    error = f"INC quantization with bits={bits}, sym={sym} is not supported"
    if not sym:
        reader.note(ProblemKind.VALUE, "sym", "true, or AWQ packing", error)
    elif size not in GROUP_SIZES:
        sizes = " or ".join(str(g) for g in GROUP_SIZES)
        reader.note(ProblemKind.VALUE, "group_size", sizes, error)
    elif declared.backend in {"gptq", "awq"}:
        reader.note(ProblemKind.VALUE, "backend", "auto, or a Marlin backend", error)


def _check_floats(family: str, settings: Settings, reader: Reader) -> None:
    bits, size = settings.bits, settings.group_size
    name = "INC block-wise FP8" if family == "fp" else "INC MXFP"
    if bits not in ({8} if family == "fp" else {4, 8}):
        wanted = "8" if family == "fp" else "4 or 8"
        reader.note(ProblemKind.VALUE, "bits", wanted, f"{name} only supports bits={wanted}")
    if family == "fp" and not (isinstance(size, tuple) and min(size) > 0):
        error = f"{name} requires a 2-D group_size"
        reader.note(ProblemKind.VALUE, "group_size", "[rows, columns]", error)
    if family == "mx_fp" and size != 32:
        reader.note(ProblemKind.VALUE, "group_size", "32", f"{name} only supports group_size=32")
    if not settings.sym:
        error = f"{name} only supports symmetric weights"
        reader.note(ProblemKind.VALUE, "sym", "true", error)
