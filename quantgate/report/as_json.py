"""The JSON form of a report, as `schema.json` beside this file describes it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quantgate import __version__
from quantgate.report.model import SCHEMA_VERSION

if TYPE_CHECKING:
    from quantgate.findings import Finding
    from quantgate.report.model import ModelReport, Report, ResolvedTarget, Stats, TierResult
    from quantgate.targets import Target

MAX_DEPTH = 32


def plain_value(value: Any, depth: int = 0) -> Any:
    """A value of a config as JSON can hold it.

    Python reads `NaN` from a config.json, which no other JSON reader accepts; non-finite numbers,
    objects of ours and whatever is nested deeper than `MAX_DEPTH` become text.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {str(k): plain_value(v, depth + 1) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain_value(v, depth + 1) for v in value]
    if isinstance(value, frozenset | set):
        return sorted((plain_value(v, depth + 1) for v in value), key=repr)
    return str(value)


def _target(target: Target) -> dict[str, Any]:
    return {
        "engine": "vllm",
        "release": target.release,
        "gpu": target.gpu,
        "tensor_parallel": target.tensor_parallel,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "severity": finding.severity.value,
        "outcome": finding.outcome.value,
        "confidence": finding.confidence.value,
        "module": finding.module,
        "tensor": finding.tensor,
        "pattern": finding.pattern,
        "count": finding.count,
        "examples": list(finding.examples),
        "expected": finding.expected,
        "found": finding.found,
        "message": finding.message,
        "fix": finding.fix,
        "unverified": finding.unverified,
        "patch": [plain_value(op) for op in finding.patch],
        "targets": list(finding.targets),
        "docs": finding.docs,
        "tier": finding.tier,
    }


def _resolved(item: ResolvedTarget) -> dict[str, Any]:
    return {
        "target": item.target,
        "resolved": item.resolved,
        "kind": item.kind,
        "rows": list(item.rows),
        "modules": item.modules,
        "role": item.role,
        "note": item.note,
    }


def _stats(stats: Stats) -> dict[str, Any]:
    return {
        "files": stats.files,
        "tensors": stats.tensors,
        "bytes_read": stats.bytes_read,
        "bytes_total": stats.bytes_total,
        "requests": stats.requests,
        "seconds": round(stats.seconds, 3),
    }


def _model(model: ModelReport) -> dict[str, Any]:
    return {
        "source": model.source,
        "revision": model.revision,
        "verdict": model.verdict.value,
        "summary": model.summary,
        "declared": plain_value(model.declared),
        "observed": plain_value(model.observed),
        "findings": [_finding(f) for f in model.findings],
        "resolution": [_resolved(r) for r in model.resolution],
        "stats": _stats(model.stats),
        **_by_target(model),
        **({"tiers": [_tier(t) for t in model.tiers]} if model.tiers else {}),
    }


def _tier(result: TierResult) -> dict[str, Any]:
    return {
        "tier": result.tier,
        "verdict": result.verdict.value,
        "summary": result.summary,
        "facts": plain_value(result.facts),
    }


def _by_target(model: ModelReport) -> dict[str, dict[str, str]]:
    """Left out where there is no verdict on any target."""
    verdicts = {target: verdict.value for target, verdict in model.verdicts}
    return {"by_target": verdicts} if verdicts else {}


def to_json(report: Report) -> dict[str, Any]:
    """The report as JSON values; keys in the order of the schema, the optional ones where known."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "quantgate", "version": __version__},
        "targets": [_target(t) for t in report.targets],
        "models": [_model(m) for m in report.models],
        **({"unchanged": report.unchanged} if report.unchanged else {}),
        **({"notes": list(report.notes)} if report.notes else {}),
    }


def to_json_text(report: Report) -> str:
    """The report as a JSON file: ASCII only, so that no name can act on a terminal or log."""
    return json.dumps(to_json(report), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
