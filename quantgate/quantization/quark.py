"""AMD Quark declarations: vLLM 0.33.0, layers/quantization/quark/quark.py.

A config of its own per name (`layer_quant_config`), else `global_quant_config`; each describes the
weight and the inputs, and vLLM picks a scheme from the combination.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import Declaration, ProblemKind, Reader, shown
from quantgate.quantization.quark_scheme import select_scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.quantization.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Config:
    """What is declared for some layers. `text` compares two of them, as vLLM's deep_compare does.

    The schemes are None where vLLM has none for the combination; experts have their own choice.
    """

    text: str
    scheme: Scheme | None
    experts: Scheme | None
    error: str


@dataclass(frozen=True, kw_only=True)
class QuarkDeclaration(Declaration):
    """The keys of a Quark block that vLLM reads.

    Attributes:
        everywhere: `global_quant_config`, None where it is missing or unusable.
        by_name: `layer_quant_config` in its order: name or pattern → config.
        excluded: Names and `re:` patterns of modules that stay dense.
    """

    everywhere: Config | None
    by_name: tuple[tuple[str, Config], ...]
    excluded: tuple[str, ...]


def parse(raw: Mapping[str, Any], file: str, path: str) -> QuarkDeclaration:
    """Read a Quark block and note what vLLM refuses."""
    reader = Reader(raw)
    export = raw.get("export")
    if export is None:
        error = "The export key should be included in the configurations of Quark quantized model"
        reader.note(ProblemKind.MISSING, "export", "an object", error)
    elif not isinstance(export, dict):
        reader.note(ProblemKind.VALUE, "export", "an object", "AttributeError")
    export = export if isinstance(export, dict) else {}
    if raw.get("exclude") is None:
        error = "TypeError: 'NoneType' object is not iterable"
        reader.note(ProblemKind.MISSING, "exclude", "a list of names", error)
    if not isinstance(raw.get("layer_type_quant_config"), dict):
        kind = ProblemKind.VALUE if raw.get("layer_type_quant_config") else ProblemKind.MISSING
        error = "AttributeError: 'NoneType' object has no attribute 'get'"
        reader.note(kind, "layer_type_quant_config", "an object", error)
    pack_method = export.get("pack_method")
    groups = export.get("kv_cache_group")
    cached = [g for g in groups if isinstance(g, str)] if isinstance(groups, list) else []
    return QuarkDeclaration(
        method="quark",
        file=file,
        path=path,
        raw=raw,
        everywhere=_config(raw.get("global_quant_config"), pack_method, reader),
        by_name=_by_name(raw.get("layer_quant_config"), cached, pack_method, reader),
        excluded=reader.strings("exclude"),
        problems=tuple(reader.problems),
    )


def _config(
    value: object,
    pack_method: object,
    reader: Reader,
    key: str = "global_quant_config",
    *,
    cache: bool = False,
) -> Config | None:
    if value is None and key == "global_quant_config":
        return None
    if not isinstance(value, dict):
        error = "AttributeError: object has no attribute 'get'"
        reader.add(ProblemKind.VALUE, key, "an object", shown(value), error)
        return None
    # The output of a cached projection is the cache's business.
    config = {**value, "output_tensors": None} if cache else value
    scheme, error = select_scheme(config, pack_method, experts=False)
    experts, _ = select_scheme(config, pack_method, experts=True)
    if scheme is None and experts is None:
        found = f"weight {shown(config.get('weight'))}, inputs {shown(config.get('input_tensors'))}"
        reader.add(ProblemKind.SCHEME, key, "a combination that vLLM supports", found, error)
    return Config(repr(config), scheme, experts, error)


def _by_name(
    value: object, cached: list[str], pack_method: object, reader: Reader
) -> tuple[tuple[str, Config], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        error = "AttributeError: object has no attribute 'items'"
        reader.note(ProblemKind.VALUE, "layer_quant_config", "an object", error)
        return ()
    found = []
    for name, block in value.items():
        cache = any(fnmatchcase(name, g) for g in cached) or (bool(cached) and name == "*q_proj")
        config = _config(block, pack_method, reader, f"layer_quant_config.{name}", cache=cache)
        if config is not None:
            found.append((name, config))
    return tuple(found)
