"""Native FP8 declarations: vLLM 0.33.0, layers/quantization/fp8.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration, ProblemKind, Reader
from quantgate.quantization.scheme import Activations, Layout, Scheme, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Fp8Declaration(Declaration):
    """The keys of an fp8 block that vLLM reads. `block` is (rows, columns) per scale."""

    static: bool
    block: tuple[int, int] | None
    ignored: tuple[str, ...]
    ignored_key: str

    def scheme(self) -> Scheme:
        """The scheme of every module that is not ignored."""
        inputs = Activations(8, "float", Strategy.TENSOR, dynamic=not self.static)
        if self.block is not None:
            return Scheme(
                Layout.FP8,
                8,
                "float",
                Strategy.BLOCK,
                block=self.block,
                activations=inputs,
                scale_name="weight_scale_inv",
            )
        return Scheme(Layout.FP8, 8, "float", Strategy.TENSOR, activations=inputs)


def parse(raw: Mapping[str, Any], file: str, path: str) -> Fp8Declaration:
    """Read an fp8 block and note what vLLM refuses."""
    reader = Reader(raw)
    activations = reader.find("activation_scheme")
    if activations is None:
        reader.note(
            ProblemKind.MISSING,
            "activation_scheme",
            "static or dynamic",
            "Cannot find any of ['activation_scheme'] in the model's quantization config.",
        )
    elif raw["activation_scheme"] not in ("static", "dynamic"):
        reader.note(
            ProblemKind.VALUE,
            "activation_scheme",
            "static or dynamic",
            "Unsupported activation scheme",
        )
    static = raw.get("activation_scheme") == "static"
    block = _block(raw, reader)
    if block is not None and static:
        reader.note(
            ProblemKind.VALUE,
            "activation_scheme",
            "dynamic",
            "The block-wise quantization only supports dynamic activation scheme for now",
            patch_value="dynamic",
        )
    key = "ignored_layers" if raw.get("ignored_layers") else "modules_to_not_convert"
    return Fp8Declaration(
        method="fp8",
        file=file,
        path=path,
        raw=raw,
        problems=tuple(reader.problems),
        # With blocks vLLM refuses static ones; the tensors are then judged for what is meant.
        static=static and block is None,
        block=block,
        ignored=reader.strings(key),
        ignored_key=key,
    )


def _block(raw: Mapping[str, Any], reader: Reader) -> tuple[int, int] | None:
    value = raw.get("weight_block_size")
    if value is None:
        return None
    if (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in value)
    ):
        return value[0], value[1]
    reader.note(
        ProblemKind.VALUE,
        "weight_block_size",
        "two positive numbers",
        "The quantization block size of weight must have 2 dimensions",
    )
    return None
