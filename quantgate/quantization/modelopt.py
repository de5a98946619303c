"""ModelOpt declarations: vLLM 0.33.0, layers/quantization/modelopt.py.

Two layouts: nested (`quantization: {quant_algo, exclude_modules, …}`, as hf_quant_config.json has
it) and flat (`quant_algo`, `ignore`), which config.json has beside a copy of the compressed-tensors
groups. The algorithm decides, not the name of the method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration, Problem, ProblemKind, Reader, shown
from quantgate.quantization.scheme import Activations, Layout, Scheme, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

ALGORITHMS = (
    *("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO"),
    *("NVFP4", "W4A16_NVFP4", "MXFP8", "MIXED_PRECISION"),
)
# Two names of experts in block FP8, which a mixture builds as those of the fp8 method.
BLOCK_EXPERTS = ("FP8_PB_WO", "FP8_BLOCK_SCALES")
# ggml's block codecs in a mixture (utils/b12x.py): values and bytes per block, bits of a value.
CODECS = {"IQ2_XS": (256, 74, 2), "IQ2_XXS": (256, 66, 2), "Q8_0": (32, 34, 8)}
# What a nested block of ModelOpt is rewritten to (model_arch_config_convertor.py).
_METHODS = {
    "FP8": "modelopt",
    "FP8_PER_CHANNEL_PER_TOKEN": "modelopt",
    "FP8_PB_WO": "modelopt",
    "NVFP4": "modelopt_fp4",
    "MIXED_PRECISION": "modelopt_mixed",
}
_PRESENT = {
    "NVFP4": ("group_size", "kv_cache_quant_algo", "exclude_modules"),
    "W4A16_NVFP4": ("group_size", "kv_cache_quant_algo", "exclude_modules"),
    "MXFP8": ("kv_cache_quant_algo", "exclude_modules"),
}
# FP8 needs sm_80 by the method's own word; the method of a mixture takes any Turing GPU.
_CAPABILITY = 80


@dataclass(frozen=True, kw_only=True)
class ModelOptDeclaration(Declaration):
    """The keys of a ModelOpt block that vLLM reads.

    Attributes:
        algorithm: One of `ALGORITHMS`, empty where it is missing or unknown.
        group_size: Values per scale of NVFP4.
        excluded: Names and wildcards of modules that stay dense.
        excluded_key: Where they stand; vLLM before 0.33 overlooks a flat `exclude_modules`.
        layers: Module → algorithm, for MIXED_PRECISION.
        weights_only: Every group of the copied config_groups leaves the inputs alone; since 0.30
            NVFP4 is read as W4A16_NVFP4 then.
    """

    algorithm: str
    group_size: int
    excluded: tuple[str, ...]
    excluded_key: str
    layers: Mapping[str, str]
    weights_only: bool

    @property
    def mixed(self) -> bool:
        """Whether only the listed modules are quantized, each by its own algorithm."""
        return self.algorithm == "MIXED_PRECISION"

    def _block_experts(self, capability: int) -> Scheme | None:
        """Experts of block FP8 in a mixture: Fp8MoEMethod, one size for all of them."""
        inner = self.raw.get("quantization")
        block = inner if isinstance(inner, dict) else self.raw
        recipes = block.get("quantized_layers")
        sizes = {
            recipe.get("group_size", 128)
            for recipe in (recipes.values() if isinstance(recipes, dict) else ())
            if isinstance(recipe, dict)
            and str(recipe.get("quant_algo", "")).upper() in BLOCK_EXPERTS
            and isinstance(recipe.get("group_size", 128), int)
        }
        size = sizes.pop() if len(sizes) == 1 else 0
        if not 0 < size < 1 << 31:
            return None
        return Scheme(
            Layout.FP8,
            8,
            "float",
            Strategy.BLOCK,
            block=(size, size),
            activations=Activations(8, "float", Strategy.GROUP, dynamic=True),
            scale_name="weight_scale_inv",
            capability=capability,
        )

    def scheme(self, algorithm: str = "", *, experts: bool = False) -> Scheme | None:
        """The scheme of an algorithm, by default the declared one; None if there is none.

        Outside a mixture, vLLM builds experts of every FP8 variant with one scale per tensor.
        """
        capability = 0 if self.mixed else _CAPABILITY
        name = algorithm or self.algorithm
        if name in CODECS:
            size, _, bits = CODECS[name]
            return Scheme(Layout.GGML, bits, "int", Strategy.GROUP, size, capability=120)
        if experts and self.mixed and name in BLOCK_EXPERTS:
            return self._block_experts(capability)
        if experts and name.startswith("FP8"):
            if self.mixed and name != "FP8":
                return None
            name = "FP8"
        match name:
            case "FP8":
                inputs = Activations(8, "float", Strategy.TENSOR, dynamic=False)
                return Scheme(
                    Layout.FP8,
                    8,
                    "float",
                    Strategy.TENSOR,
                    activations=inputs,
                    capability=capability,
                )
            case "FP8_PER_CHANNEL_PER_TOKEN":
                inputs = Activations(8, "float", Strategy.TOKEN, dynamic=True)
                return Scheme(
                    Layout.FP8,
                    8,
                    "float",
                    Strategy.CHANNEL,
                    activations=inputs,
                    scale_rank=1,
                    capability=capability,
                )
            case "FP8_PB_WO":
                inputs = Activations(8, "float", Strategy.GROUP, dynamic=True)
                return Scheme(
                    Layout.FP8,
                    8,
                    "float",
                    Strategy.BLOCK,
                    block=(128, 128),
                    activations=inputs,
                    scale_rank=4,
                    capability=capability,
                )
            case "NVFP4" | "W4A16_NVFP4":
                four = Activations(4, "float", Strategy.TENSOR_GROUP, dynamic=False)
                return Scheme(
                    Layout.MODELOPT_NVFP4,
                    4,
                    "float",
                    Strategy.TENSOR_GROUP,
                    self.group_size,
                    activations=four if name == "NVFP4" else None,
                )
            case "MXFP8":
                inputs = Activations(8, "float", Strategy.GROUP, dynamic=True)
                return Scheme(
                    Layout.MXFP8,
                    8,
                    "float",
                    Strategy.GROUP,
                    32,
                    activations=inputs,
                    capability=_CAPABILITY,
                )
        return None


def _codec_problem(name: str, recipe: Mapping[str, Any], reader: Reader) -> None:
    """Ggml's blocks must be described in full."""
    size, payload, _ = CODECS[str(recipe["quant_algo"]).upper()]
    wanted = {"group_size": size, "block_payload_bytes": payload, "packing": "ggml"}
    for key, value in wanted.items():
        if recipe.get(key) != value:
            reader.add(
                ProblemKind.VALUE,
                f"quantized_layers.{name}.{key}",
                shown(value),
                shown(recipe[key]) if key in recipe else "absent",
                f"unsupported {str(recipe['quant_algo']).upper()} block contract",
            )


def modelopt_method(raw: Mapping[str, Any]) -> tuple[str, Problem | None]:
    """ModelOpt's method of a block in the nested layout, or why vLLM refuses it.

    Only a nested `quantization` is looked at, and only beside `producer: {name: modelopt}`; empty
    for every other block, whatever it is (model_arch_config_convertor.py).
    """
    nested, producer = raw.get("quantization"), raw.get("producer")
    if not isinstance(nested, dict):
        return "", None
    named = isinstance(producer, dict) and producer.get("name") == "modelopt"
    algorithm = nested.get("quant_algo")
    if not (named or "modelopt_quant_config" in nested) or algorithm is None:
        return "", None
    method = _METHODS.get(algorithm.upper()) if isinstance(algorithm, str) else None
    if method is None:
        return "modelopt", Problem(
            ProblemKind.VALUE,
            "quantization.quant_algo",
            ", ".join(_METHODS),
            shown(algorithm),
            "Unknown ModelOpt quant algo",
        )
    return method, None


def parse(raw: Mapping[str, Any], method: str, file: str, path: str) -> ModelOptDeclaration:
    """Read a ModelOpt block of either layout and note what vLLM refuses."""
    nested = raw.get("quantization")
    flat = "quantization" not in raw
    block = raw if flat else nested if isinstance(nested, dict) else {}
    reader = Reader(block, "" if flat else "quantization.")
    problems: list[Problem] = []
    if not flat and not isinstance(nested, dict):
        problems.append(
            Problem(
                ProblemKind.VALUE,
                "quantization",
                "an object",
                shown(nested),
                "Expected 'quantization' to be a dictionary in config",
            )
        )
    # MiniMax tags its MXFP8 files so; anything else about them is ModelOpt's.
    minimax = flat and method in {"mxfp8", "modelopt_mxfp8"} and not raw.get("quant_algo")
    algorithm = "MXFP8" if minimax else _algorithm(block, method, reader)
    if minimax:
        key = "ignored_layers"
    elif flat:
        key = "ignore" if "ignore" in raw else "exclude_modules"
    else:
        key = "exclude_modules"
    if not flat:
        for name in _PRESENT.get(algorithm, ()):
            if name not in block:
                error = f"{algorithm} quantization requires the following fields: ['{name}']"
                reader.note(ProblemKind.MISSING, name, name, error)
        kv_cache = block.get("kv_cache_quant_algo")
        if kv_cache is not None and not isinstance(kv_cache, str):
            error = "kv_cache_quant_algo must be a string"
            reader.note(ProblemKind.VALUE, "kv_cache_quant_algo", "a string or null", error)
    layers = _layers(block, reader) if algorithm == "MIXED_PRECISION" else {}
    return ModelOptDeclaration(
        method=method,
        file=file,
        path=path,
        raw=raw,
        algorithm=algorithm,
        group_size=_group_size(block, reader),
        excluded=reader.strings(key),
        excluded_key=key if flat else f"quantization.{key}",
        layers=layers,
        weights_only=algorithm == "NVFP4" and _weights_only(raw.get("config_groups")),
        problems=(*problems, *reader.problems),
    )


def _algorithm(block: Mapping[str, Any], method: str, reader: Reader) -> str:
    value = block.get("quant_algo")
    if not value:
        error = "Missing 'quant_algo' in quantization config"
        reader.note(ProblemKind.MISSING, "quant_algo", ", ".join(ALGORITHMS), error)
        return ""
    name = str(value).upper()
    if name not in ALGORITHMS:
        error = "ModelOpt currently only supports: [...] quantizations in vLLM"
        reader.note(ProblemKind.VALUE, "quant_algo", ", ".join(ALGORITHMS), error)
        return ""
    if name in {"FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO"} and method != "modelopt":
        # No probe rewrites the method for these two, so it must be the right one already.
        error = f"Unsupported ModelOpt quant_algo for {method}"
        reader.note(ProblemKind.VALUE, "quant_algo", "quant_method modelopt beside it", error)
    return name


def _group_size(block: Mapping[str, Any], reader: Reader) -> int:
    value = block.get("group_size")
    if value is None:
        return 16
    try:
        size = int(value)
    except (TypeError, ValueError, OverflowError):
        size = 0
    if not 0 < size < 1 << 31:
        error = "group_size must be an integer"
        reader.note(ProblemKind.VALUE, "group_size", "a positive integer", error)
        return 16
    return size


def _weights_only(groups: object) -> bool:
    """Whether every group leaves the inputs alone."""
    return (
        isinstance(groups, dict)
        and bool(groups)
        and all(isinstance(g, dict) and g.get("input_activations") is None for g in groups.values())
    )


def _layers(block: Mapping[str, Any], reader: Reader) -> Mapping[str, str]:
    value = block.get("quantized_layers")
    if not isinstance(value, dict) or not value:
        kind = ProblemKind.VALUE if value else ProblemKind.MISSING
        error = "MIXED_PRECISION quant_algo requires a non-empty 'quantized_layers' mapping"
        reader.note(kind, "quantized_layers", "an object of modules", error)
        return {}
    layers: dict[str, str] = {}
    for name, recipe in value.items():
        algorithm = recipe.get("quant_algo") if isinstance(recipe, dict) else None
        if isinstance(algorithm, str):
            layers[name] = algorithm.upper()
            if layers[name] in CODECS:
                _codec_problem(name, recipe, reader)
    if len(layers) < len(value):
        error = "AttributeError: object has no attribute 'upper'"
        reader.note(ProblemKind.VALUE, "quantized_layers", "a quant_algo for each module", error)
    return layers
