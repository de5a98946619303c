"""What a compressed-tensors block may hold beside its groups: KV cache and sparsity.

Source: vLLM 0.10.2 to 0.33.0, layers/quantization/compressed_tensors/compressed_tensors.py
(CompressedTensorsKVCacheMethod.validate_kv_cache_scheme, _parse_sparsity_config,
supports_cutlass_24) and schemes/compressed_tensors_24.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgate.quantization.declaration import ProblemKind, Reader, shown, type_name

if TYPE_CHECKING:
    from collections.abc import Mapping

# Before 0.16 from_config drops the scheme; until 0.23 one right value of the two is enough.
_KV_READ = (0, 16)
_KV_BOTH = (0, 27)
_KV_STRATEGIES = ("tensor", "attn_head")
# 0.19.1 already refuses what it would have run with the kernels for 2:4 sparsity.
_NO_24 = (0, 19, 1)
_NO_SPARSITY = (0, 23)
_24_FORMATS = ("dense", "sparse-24-bitmask")


def check_kv_cache(raw: Mapping[str, Any], reader: Reader) -> None:
    """Note what vLLM refuses of `kv_cache_scheme`."""
    scheme = raw.get("kv_cache_scheme")
    if scheme is None:
        return
    if not isinstance(scheme, dict):
        reader.note(
            ProblemKind.VALUE, "kv_cache_scheme", "an object", "AttributeError", since=_KV_READ
        )
        return
    kind, bits, strategy = (scheme.get(k) for k in ("type", "num_bits", "strategy"))
    if kind != "float" or bits != 8:
        reader.add(
            ProblemKind.VALUE,
            "kv_cache_scheme",
            "type float, num_bits 8",
            f"type {shown(kind)}, num_bits {shown(bits)}",
            "Currently supported kv cache quantization is num_bits=8, type=float",
            since=_KV_BOTH if kind == "float" or bits == 8 else _KV_READ,
        )
    if strategy not in _KV_STRATEGIES:
        reader.add(
            ProblemKind.VALUE,
            "kv_cache_scheme.strategy",
            " or ".join(_KV_STRATEGIES),
            shown(strategy),
            "Invalid strategy for compressed-tensors KV cache",
            since=_KV_READ,
        )
    if not scheme.get("symmetric"):
        reader.add(
            ProblemKind.VALUE,
            "kv_cache_scheme.symmetric",
            "true",
            shown(scheme.get("symmetric")),
            "Only support symmetric scaling factor for compressed-tensors KV cache",
            since=_KV_READ,
        )


def check_sparsity(raw: Mapping[str, Any], reader: Reader) -> None:
    """Note a `sparsity_config` that is in use: one with targets."""
    sparsity = raw.get("sparsity_config")
    if not sparsity:
        return
    if not isinstance(sparsity, dict):
        found = type_name(sparsity)
        error = "ValidationError for SparsityCompressionConfig"
        reader.add(ProblemKind.VALUE, "sparsity_config", "an object", found, error)
        return
    if not sparsity.get("targets"):
        return
    two_four = sparsity.get("sparsity_structure") == "2:4" and sparsity.get("format") in _24_FORMATS
    reader.add(
        ProblemKind.VALUE,
        "sparsity_config",
        "no sparsity",
        f"format {shown(sparsity.get('format'))}, {shown(sparsity.get('sparsity_structure'))}",
        "Sparse24 models are no longer supported by vLLM"
        if two_four
        else "DeprecationWarning: Sparsity support has been removed from compressed-tensors",
        since=_NO_24 if two_four and _runs_sparse(raw) else _NO_SPARSITY,
    )


def sparse_format(raw: Mapping[str, Any]) -> bool:
    """Whether the weights are stored as bitmasks and compressed values, whose shapes vary."""
    sparsity = raw.get("sparsity_config")
    return (
        isinstance(sparsity, dict)
        and bool(sparsity.get("targets"))
        and str(sparsity.get("format", "")).startswith("sparse-")
    )


def _runs_sparse(raw: Mapping[str, Any]) -> bool:
    """Whether releases with 2:4 kernels took them: all but weight-only quantization."""
    groups = raw.get("config_groups")
    values = groups.values() if isinstance(groups, dict) else ()
    return all(isinstance(g, dict) and g.get("input_activations") for g in values)
