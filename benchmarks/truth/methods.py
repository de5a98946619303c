"""A family quantized by a method: what the tool of that method would have written."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.declarations import DECLARATIONS
from tests.support.linears import linear_tensors

if TYPE_CHECKING:
    from benchmarks.truth.families import Family

METHODS = (
    "gptq",
    "gptq-8bit",
    "awq",
    "auto-round",
    "pack",
    "pack-asym",
    "pack-channel",
    "int8",
    "fp8-dynamic",
    "fp8-static",
    "fp8-block-ct",
    "nvfp4",
    "nvfp4a16",
    "fp8",
    "fp8-block",
    "modelopt-fp8",
    "modelopt-nvfp4",
    "quark-fp8",
)


@dataclass
class Case:
    """A checkpoint that a fault may still change.

    Attributes:
        family: What it was made from.
        method: A name of `METHODS`.
        config: config.json.
        tensors: Name → text such as `BF16[8,8]`.
        sides: Other JSON files by name.
    """

    family: Family
    method: str
    config: dict[str, Any]
    tensors: dict[str, str]
    sides: dict[str, Any]

    @property
    def block(self) -> dict[str, Any]:
        """The quantization block of the config."""
        block: dict[str, Any] = self.config["quantization_config"]
        return block

    def leaves(self, module: str) -> dict[str, str]:
        """Leaf → tensor of a module."""
        prefix = f"{module}."
        return {n.removeprefix(prefix): t for n, t in self.tensors.items() if n.startswith(prefix)}

    def make_dense(self, module: str, n: int, k: int) -> None:
        """Store a linear module as it was before quantization; its bias stays."""
        for leaf in self.leaves(module):
            if leaf != "bias":
                del self.tensors[f"{module}.{leaf}"]
        self.tensors[f"{module}.weight"] = f"BF16[{n},{k}]"


def build(family: Family, method: str) -> Case:
    """The healthy checkpoint."""
    config = copy.deepcopy(family.config)
    config["quantization_config"] = copy.deepcopy(DECLARATIONS[method])
    tensors = {name: _text(shape) for name, shape in family.dense.items()}
    for name, (n, k) in family.routers.items():
        tensors[f"{name}.weight"] = f"BF16[{n},{k}]"
    for name, (n, k) in family.linears.items():
        tensors.update({f"{name}.{leaf}": t for leaf, t in linear_tensors(method, n, k).items()})
    case = Case(family, method, config, tensors, {})
    skip(case, family.routers)
    return case


def skip(case: Case, modules: Any) -> None:
    """Declare modules as not quantized, in the words of the method."""
    names = list(modules)
    if not names:
        return
    block = case.block
    match block["quant_method"]:
        case "compressed-tensors" | "modelopt":
            block["ignore"] += names
        case "quark":
            block["exclude"] += names
        case "auto-round":
            block.setdefault("extra_config", {}).update({n: {"bits": 16} for n in names})
        case "gptq":
            block.setdefault("dynamic", {}).update(
                {f"-:.*{n.split('.', 2)[2]}.*": {} for n in names}
            )
        case _:
            block.setdefault("modules_to_not_convert", []).extend(names)


def _text(shape: tuple[int, ...]) -> str:
    return f"BF16[{','.join(map(str, shape))}]"
