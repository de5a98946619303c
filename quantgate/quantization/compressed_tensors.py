"""compressed-tensors declarations: groups of targets, each with a scheme.

Source: vLLM 0.33.0, layers/quantization/compressed_tensors/compressed_tensors.py from_config.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quantgate.quantization.compressed_tensors_extras import (
    check_kv_cache,
    check_sparsity,
    sparse_format,
)
from quantgate.quantization.compressed_tensors_scheme import (
    ACTIVATION_FORMATS,
    activations_text,
    format_that_works,
    is_marlin_24,
    read_arguments,
    select_scheme,
    what_would_do,
)
from quantgate.quantization.declaration import (
    Declaration,
    Problem,
    ProblemKind,
    Reader,
    shown,
    type_name,
)
from quantgate.quantization.scheme import Layout
from quantgate.quantization.transforms import Transform, read_transforms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.quantization.scheme import Scheme

MARLIN_24_GONE = (0, 16)  # the last release with CompressedTensorsW4A16Sparse24 is 0.13


@dataclass(frozen=True, slots=True)
class Group:
    """One entry of `config_groups`. `scheme` is None where vLLM has none or it was refused."""

    name: str
    targets: tuple[str, ...]
    scheme: Scheme | None
    format: str


@dataclass(frozen=True, kw_only=True)
class CompressedTensorsDeclaration(Declaration):
    """A compressed-tensors block: which names get which scheme."""

    format: str
    groups: tuple[Group, ...]
    ignore: tuple[str, ...]
    transforms: tuple[Transform, ...]

    def group_of_target(self, target: str) -> Group:
        """The group a target string belongs to; of equal strings the last group's wins, as in vLLM.

        Raises:
            KeyError: No group has this target.
        """
        for group in reversed(self.groups):
            if target in group.targets:
                return group
        raise KeyError(target)

    @property
    def targets(self) -> tuple[str, ...]:
        """Every target string once, in the order in which vLLM tries them."""
        return tuple(dict.fromkeys(t for g in self.groups for t in g.targets))


def parse(raw: Mapping[str, Any], file: str, path: str) -> CompressedTensorsDeclaration:
    """Read a compressed-tensors block and note what vLLM or the library refuses."""
    reader = Reader(raw)
    declared = raw.get("config_groups")
    groups: list[Group] = []
    if declared is not None and not isinstance(declared, dict):
        reader.note(ProblemKind.VALUE, "config_groups", "an object", "AttributeError")
        declared = {}
    default_format = raw.get("format")
    default_format = default_format if isinstance(default_format, str) else ""
    blocks = declared or {}
    for name, value in blocks.items():
        group, problems = _group(str(name), value, default_format, alone=len(blocks) == 1)
        reader.problems.extend(problems)
        if group is not None:
            groups.append(group)
    check_sparsity(raw, reader)
    check_kv_cache(raw, reader)
    transforms, refused = read_transforms(raw)
    reader.problems += refused
    return CompressedTensorsDeclaration(
        method="compressed-tensors",
        file=file,
        path=path,
        raw=raw,
        problems=tuple(reader.problems),
        modelled=not sparse_format(raw) and all(g.format != "marlin-24" for g in groups),
        format=default_format,
        groups=tuple(groups),
        transforms=transforms,
        ignore=reader.strings("ignore"),
    )


def _group(
    name: str, value: object, default_format: str, *, alone: bool
) -> tuple[Group | None, list[Problem]]:
    """Read one group; the format of the block is its own where it is `alone` and names none."""
    prefix = f"config_groups.{name}."
    if not isinstance(value, dict):
        return None, [
            Problem(
                ProblemKind.VALUE, prefix[:-1], "an object", type_name(value), "ValidationError"
            )
        ]
    reader = Reader(value, prefix)
    targets = reader.strings("targets")
    if "targets" not in value:
        reader.note(ProblemKind.MISSING, "targets", "a list of names", "KeyError: 'targets'")
    if len(targets) == 1 and targets[0].endswith("Attention"):
        return None, reader.problems  # dropped with a warning: it belongs to the KV cache
    own_format = value.get("format")
    layout = own_format if isinstance(own_format, str) else default_format
    format_key = "format" if alone and not isinstance(own_format, str) else f"{prefix}format"
    if not isinstance(value.get("weights"), dict):
        kind = ProblemKind.VALUE if "weights" in value else ProblemKind.MISSING
        reader.note(kind, "weights", "an object", "ValidationError for QuantizationScheme")
        return Group(name, targets, None, layout), reader.problems
    weights, problems = read_arguments(value["weights"], f"{prefix}weights.", activations=False)
    inputs = None
    declared_inputs = value.get("input_activations")
    if isinstance(declared_inputs, dict):
        inputs, more = read_arguments(
            declared_inputs, f"{prefix}input_activations.", activations=True
        )
        problems += more
    problems = [*reader.problems, *problems]
    if weights is None or (isinstance(declared_inputs, dict) and inputs is None):
        return Group(name, targets, None, layout), problems
    outputs = isinstance(value.get("output_activations"), dict)
    scheme, error = select_scheme(weights, inputs, layout, outputs=outputs)
    if scheme is None and all(p.until for p in problems):
        sparse = is_marlin_24(weights, inputs, layout)
        found = f"{weights.type}{weights.bits} {weights.strategy}"
        found += f", {activations_text(inputs)}, format {layout or 'null'}"
        problems.append(
            Problem(
                ProblemKind.SCHEME,
                format_key,
                what_would_do(weights, inputs),
                found,
                error,
                patch_value=... if sparse else format_that_works(weights, inputs, layout) or ...,
                since=MARLIN_24_GONE if sparse else (),
            )
        )
    if scheme is not None and scheme.layout is Layout.NVFP4 and inputs is not None:
        problems += _nvfp4_format(layout, format_key)
    return Group(name, targets, scheme, layout), problems


def _nvfp4_format(layout: str, key: str) -> list[Problem]:
    """Quantized inputs of NVFP4 were looked for in the formats of activations only."""
    if layout in ACTIVATION_FORMATS:
        return []
    wanted = "nvfp4-pack-quantized"
    error = "NotImplementedError: No compressed-tensors compatible scheme was found."
    return [
        Problem(
            ProblemKind.SCHEME,
            key,
            f"format {shown(wanted)}",
            layout or "null",
            error,
            patch_value=wanted,
            until=(0, 23),
        )
    ]
