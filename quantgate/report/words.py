"""The sentences that all forms of the report share: verdicts, consequences, counts and sizes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.archive import SUFFIX as ARCHIVE
from quantgate.findings import (
    DRY_LOAD,
    HEADERS,
    SMOKE,
    TIERS,
    Confidence,
    Outcome,
    Severity,
    Verdict,
    worst,
)
from quantgate.report.as_json import plain_value
from quantgate.targets import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quantgate.findings import Finding
    from quantgate.report.compare import Comparison, ModelChange
    from quantgate.report.model import ModelReport, Report, TierResult

ICONS = {
    Verdict.FAIL: "❌",
    Verdict.UNVERIFIED: "❓",
    Verdict.WARN: "⚠️",
    Verdict.PASS: "✅",
    Severity.ERROR: "❌",
    Severity.WARNING: "⚠️",
    Severity.INFO: "ℹ️",
}

TIER_NAMES = {
    HEADERS: "check of configs and headers",
    DRY_LOAD: "dry load (vLLM's own loader, no weights)",
    SMOKE: "smoke load (vLLM with the weights)",
}

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def plural(count: int, word: str) -> str:
    """`1 error`, `2,048 errors`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def tally(findings: Sequence[Finding]) -> str:
    """`2 errors, 1 warning`; infos only where there is nothing worse; empty without findings."""
    counts = [(sum(f.severity is s for f in findings), s) for s in Severity]
    parts = [plural(n, s.value) for n, s in counts if n and s is not Severity.INFO]
    infos = counts[-1][0]
    if not parts and infos:
        parts.append(plural(infos, "note"))
    return ", ".join(parts)


def tally_all(findings: Sequence[Finding]) -> str:
    """`1 warning, 2 notes`: every severity that occurs, infos called notes."""
    names = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    counts = [(sum(f.severity is s for f in findings), name) for s, name in names.items()]
    return ", ".join(plural(n, name) for n, name in counts if n)


def size(count: int) -> str:
    """Bytes in decimal units, as the Hub counts them: `23.0 MB`."""
    if count < 1000:
        return plural(count, "byte")
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95 or unit == "TB":
            return f"{value:,.1f} {unit}"
    raise AssertionError


def short_revision(revision: str | None) -> str:
    """The first seven digits of a commit, anything else as it is."""
    if revision is None:
        return ""
    return revision[:7] if _COMMIT.fullmatch(revision) else revision


def at(source: str) -> str:
    """What stands between a model and its revision: of an archive, that is only what it says."""
    return "says it is" if source.endswith(ARCHIVE) else "@"


def target_words(target: Target) -> str:
    """`vLLM 0.33.0 on sm90, tensor parallel 2`."""
    words = f"vLLM {target.release}"
    if target.gpu:
        words += f" on {target.gpu}"
    if target.tensor_parallel > 1:
        words += f", tensor parallel {target.tensor_parallel}"
    return words


def some_targets_words(targets: Sequence[str]) -> str:
    """The targets of a finding for people; a malformed one is kept as it is."""
    words = []
    for text in targets:
        try:
            words.append(target_words(Target.parse(text)))
        except ValueError:
            words.append(text)
    return "; ".join(words)


_SHORT = {
    Verdict.FAIL: "the model would not work in vLLM",
    Verdict.UNVERIFIED: "the model could not be verified",
    Verdict.WARN: "the model loads, with warnings",
    Verdict.PASS: "no fault found",
}


def targets_words(targets: Sequence[Target]) -> str:
    """The targets of a run."""
    return "; ".join(map(target_words, targets)) or "no target"


def heading(model: ModelReport) -> str:
    """The verdict on one model with numbers, ending where its name follows."""
    found = tally(model.findings)
    match model.verdict:
        case Verdict.FAIL:
            return f"quantgate: {found or 'blocked'} in"
        case Verdict.UNVERIFIED:
            return f"quantgate: could not verify{f' ({found})' if found else ''}:"
        case Verdict.WARN:
            return f"quantgate: {found or 'warnings'} in"
    return f"quantgate: no fault{f' ({found})' if found else ''} in"


def verdict_words(report: Report) -> str:
    """The verdict of a run over several models, with numbers, in one line."""
    total = len(report.models)
    counts = {v: sum(m.verdict is v for m in report.models) for v in Verdict}
    if not total:
        left = report.unchanged
        return f"no model changed ({left:,} not touched)" if left else "no model was checked"
    parts = []
    if total == 1:
        parts.append(_SHORT[report.models[0].verdict])
    elif counts[Verdict.FAIL]:
        parts.append(f"{counts[Verdict.FAIL]} of {plural(total, 'model')} would not work in vLLM")
    if counts[Verdict.UNVERIFIED] and total > 1:
        parts.append(f"{counts[Verdict.UNVERIFIED]} could not be verified")
    if not parts:
        warned = counts[Verdict.WARN]
        parts.append(f"{plural(total, 'model')} checked, none blocked")
        if warned:
            parts.append(f"{warned} with warnings")
    found = tally([f for m in report.models for f in m.findings])
    return ", ".join(parts) + (f" ({found})" if found else "")


def outcome_words(model: ModelReport) -> str:
    """What vLLM does with the model, for a table cell."""
    errors = {f.outcome for f in model.findings if f.severity is Severity.ERROR}
    match model.verdict:
        case Verdict.PASS:
            return "loads"
        case Verdict.WARN:
            return "loads, with warnings"
        case Verdict.UNVERIFIED:
            return "unknown: could not be verified"
    if Outcome.FAILS in errors or not errors:
        return "stops with an error"
    if Outcome.SILENT in errors:
        return "loads, computes wrong results"
    return "loads only under conditions"


def consequence(model: ModelReport) -> str:
    """What happens if this model is merged and served: the model's own summary, or a sentence."""
    return model.summary.strip() or consequence_of(model.verdict, model.findings)


def consequence_of(verdict: Verdict, findings: Sequence[Finding]) -> str:
    """One sentence on what vLLM does, from the worst outcomes of the findings."""
    outcomes = {f.outcome for f in findings if f.severity is Severity.ERROR and not f.unverified}
    match verdict:
        case Verdict.UNVERIFIED:
            return (
                "Not everything that the verdict rests on could be read, so nobody knows yet "
                "what vLLM would do with this model; until then it stays blocked."
            )
        case Verdict.PASS:
            return "Configs and tensor headers agree: vLLM will load this model as declared."
        case Verdict.WARN:
            return "vLLM will load this model, but read the warnings before you rely on it."
    if outcomes >= {Outcome.FAILS, Outcome.SILENT}:
        return (
            "vLLM will stop with an error while loading this model; with only that repaired, "
            "it would load and compute wrong results."
        )
    if Outcome.SILENT in outcomes:
        return "vLLM will load this model without an error and compute wrong results."
    if outcomes and outcomes <= {Outcome.CONDITIONAL, Outcome.COSMETIC}:
        return "vLLM will load this model only under conditions that do not hold here."
    return "vLLM will stop with an error while loading this model."


def summary_of(
    verdict: Verdict, verdicts: Sequence[tuple[str, Verdict]], findings: Sequence[Finding]
) -> str:
    """One sentence on what vLLM does, by target where the targets differ in whether it works.

    Where the verdict is worse than on any target, it has another reason, and counts for all.
    """
    alike = len({_BLOCKING[v] for _, v in verdicts}) < 2
    if alike or worst(v for _, v in verdicts) is not verdict:
        return consequence_of(verdict, findings)
    parts = []
    for does in dict.fromkeys(_BLOCKING[v] for v in (Verdict.PASS, *_BLOCKING)):
        held = [name for name, verdict in verdicts if _BLOCKING[verdict] == does]
        if held:
            parts.append(f"{does} {_range(held, [name for name, _ in verdicts])}")
    blocking = [f for f in findings if f.severity is Severity.ERROR or f.unverified]
    rules = list(dict.fromkeys(f"{f.rule} {f.name}" for f in blocking))
    more = f" and {plural(len(rules) - 3, 'more rule')}" if len(rules) > 3 else ""
    return f"Of the targets checked, it {'; it '.join(parts)}: {', '.join(rules[:3])}{more}."


_BLOCKING = {
    Verdict.FAIL: "does not work in",
    Verdict.UNVERIFIED: "could not be verified for",
    Verdict.WARN: "loads in",
    Verdict.PASS: "loads in",
}


def _range(names: Sequence[str], among: Sequence[str]) -> str:
    """Some of several targets: `vLLM 0.30.0 and newer` where they are all the newer ones."""
    everyone = sorted((Target.parse(n) for n in among), key=lambda t: t.version)
    mine = [t for t in everyone if str(t) in names]
    rest = [t for t in everyone if t not in mine]
    if len({(t.gpu, t.tensor_parallel) for t in everyone}) == 1 and rest:
        if len(mine) > 1 and mine[0].version > rest[-1].version:
            return f"vLLM {mine[0].release} and newer"
        if len(mine) > 1 and mine[-1].version < rest[0].version:
            return f"vLLM {mine[-1].release} and older"
    return "; ".join(map(target_words, mine))


def comparison_words(compared: Comparison | ModelChange) -> str:
    """`1 new finding, 2 fixed, 3 there before`; empty where nothing could be compared."""
    counts = [
        (compared.new, plural(compared.new, "new finding")),
        (len(compared.fixed), f"{len(compared.fixed):,} fixed"),
        (compared.existing, f"{compared.existing:,} there before"),
    ]
    return ", ".join(text for n, text in counts if n)


def tier(result: TierResult) -> str:
    """`dry load (vLLM's own loader, no weights): failed`."""
    name = TIER_NAMES.get(result.tier, result.tier)
    return f"{name}: {_TIER_SAYS[result.verdict]}"


_TIER_SAYS = {
    Verdict.PASS: "passed",
    Verdict.WARN: "passed, with warnings",
    Verdict.FAIL: "failed",
    Verdict.UNVERIFIED: "not verified",
}


def tiers_words(report: Report) -> str:
    """What the verdicts of a run rest on: `Configs and tensor headers only, no weights`."""
    told = [t for model in report.models for t in model.tiers]
    seen = {name for model in report.models for name in model.tier_names}
    seen -= {t.tier for t in told} - {t.tier for t in told if t.verdict is not Verdict.UNVERIFIED}
    if seen <= {HEADERS}:
        return "Configs and tensor headers only, no weights"
    return "From " + ", ".join(_TIER_READS[name] for name in TIERS if name in seen)


_TIER_READS = {
    HEADERS: "configs and tensor headers",
    DRY_LOAD: "vLLM's own loader without weights",
    SMOKE: "vLLM with the weights",
}


def place(finding: Finding) -> str:
    """The name a finding is about, never empty."""
    return finding.pattern or finding.module or finding.tensor or "the model"


def icon_of(finding: Finding) -> str:
    """A question mark where something could not be read, else the sign of the severity."""
    return ICONS[Verdict.UNVERIFIED if finding.unverified else finding.severity]


def certainty(finding: Finding) -> str:
    """`likely`, or empty where the rule is certain."""
    return finding.confidence.value if finding.confidence is Confidence.LIKELY else ""


def stats_words(model: ModelReport) -> str:
    """What was read. Times and requests stay out: they differ between equal runs."""
    stats = model.stats
    of_all = f" of {size(stats.bytes_total)}" if stats.bytes_total > stats.bytes_read else ""
    return (
        f"{plural(stats.tensors, 'tensor')} in {plural(stats.files, 'weight file')}; "
        f"read {size(stats.bytes_read)}{of_all}"
    )


def fact(value: Any) -> str:
    """A declared or observed fact as short text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value and all(type(n) is int for n in value.values()):
        return ", ".join(f"{name} × {n:,}" for name, n in value.items())
    return json.dumps(plain_value(value), ensure_ascii=True)
