"""From sources and targets to a report: open, look, apply the rules, judge."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.base import NONE, open_base
from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.checkpoint.sources import SourceError, open_checkpoint
from quantgate.findings import HEADERS, Verdict, brace, judge
from quantgate.model import Model
from quantgate.quantization.statistics import label, statistics
from quantgate.report.model import ModelReport, Report, Stats
from quantgate.report.quant_map import quant_map
from quantgate.report.view import QUANT_MAP
from quantgate.report.words import size, summary_of
from quantgate.rules import rules_of
from quantgate.targets import Target
from quantgate.vllm.capability import minimum_capability
from quantgate.vllm.patterns import forget_patterns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quantgate.checkpoint import Checkpoint
    from quantgate.checkpoint.base import Base
    from quantgate.findings import Finding
    from quantgate.rules import Rule


def check_models(
    sources: Sequence[str],
    targets: Sequence[Target] = (Target(),),
    *,
    select: frozenset[str] = frozenset(),
    ignore: frozenset[str] = frozenset(),
    base: str = NONE,
    scalars: bool = False,
    lfs: Lfs = Lfs.AUTO,
    urls: bool = False,
) -> Report:
    """Check models one after the other; one that cannot be read does not stop the others.

    Args:
        sources: Folders, header archives or repositories on the Hub.
        targets: At least one.
        select: Ids of the only rules to apply; empty means all.
        ignore: Ids of rules to leave out.
        base: The model that was quantized: a source, `auto` for the one that the model card names,
            or `none`.
        scalars: Whether to read the values of lone scales too.
        lfs: Whether to look up the Git LFS pointers of a folder.
        urls: Whether addresses (`https://…`, `s3://…`) may be read.
    """
    rules = chosen(HEADERS, select, ignore)
    models = tuple(
        _check_source(s, targets, rules, base, scalars=scalars, lfs=lfs, urls=urls) for s in sources
    )
    return Report(tuple(targets), models)


def chosen(tier: str, select: frozenset[str], ignore: frozenset[str]) -> list[Rule]:
    """The rules of a tier to apply: the selected ones, or all, but for those to ignore."""
    return [r for r in rules_of(tier) if (not select or r.id in select) and r.id not in ignore]


def _check_source(
    source: str,
    targets: Sequence[Target],
    rules: Sequence[Rule],
    base: str,
    *,
    scalars: bool,
    lfs: Lfs,
    urls: bool,
) -> ModelReport:
    started = time.perf_counter()
    try:
        checkpoint = open_checkpoint(source, scalars=scalars, lfs=lfs, urls=urls)
    except SourceError as error:
        return ModelReport(source, None, Verdict.UNVERIFIED, str(error))
    try:
        witness = open_base(base, checkpoint)
    except SourceError as error:
        summary = f"The base model cannot be read. {error}"
        return ModelReport(source, checkpoint.revision, Verdict.UNVERIFIED, summary)
    try:
        report = check_checkpoint(checkpoint, targets, rules, witness)
    except Exception as error:  # our fault, but the other models must still get their verdict
        return ModelReport(
            source,
            checkpoint.revision,
            Verdict.UNVERIFIED,
            "quantgate itself failed on this model, please report it: "
            f"{type(error).__name__}: {error}",
        )
    seconds = round(time.perf_counter() - started, 3)
    return replace(report, stats=replace(report.stats, seconds=seconds))


def check_checkpoint(
    checkpoint: Checkpoint,
    targets: Sequence[Target],
    rules: Sequence[Rule] | None = None,
    base: Base | None = None,
) -> ModelReport:
    """Apply rules (all, if not given) to one checkpoint, with its base model as a witness."""
    forget_patterns()
    model = Model(checkpoint, targets[0], base)
    findings = _findings(model, targets, rules_of(HEADERS) if rules is None else rules)
    verdicts = tuple(
        (name, judge([f for f in findings if not f.targets or name in f.targets]))
        for name in dict.fromkeys(map(str, targets))
    )
    return ModelReport(
        checkpoint.source,
        checkpoint.revision,
        judge(findings),
        summary_of(judge(findings), verdicts, findings),
        tuple(findings),
        verdicts=verdicts,
        declared=declared_facts(model),
        observed=observed_facts(model),
        resolution=model.resolution,
        stats=Stats(
            files=len(checkpoint.files),
            tensors=len(checkpoint.tensors),
            bytes_read=checkpoint.bytes_read,
            bytes_total=checkpoint.bytes_total,
            requests=checkpoint.requests,
        ),
    )


def _views(model: Model, targets: Sequence[Target]) -> list[tuple[Model, list[Target]]]:
    """The targets by what they make of the names: most rules have one answer for all of a view."""
    views: list[tuple[Model, list[Target]]] = [(model, [])]
    for target in targets:
        other = model.seen_by(target)
        held = next((held for seen, held in views if seen.view == other.view), None)
        if held is None:
            views.append((other, [target]))
        else:
            held.append(target)
    return views


def _findings(model: Model, targets: Sequence[Target], rules: Sequence[Rule]) -> list[Finding]:
    """What the rules say, each finding with the targets it holds for (none: all of them)."""
    merged: dict[str, tuple[Finding, set[str]]] = {}

    def add(findings: Sequence[Finding], held: Sequence[Target]) -> None:
        for finding in findings:
            merged.setdefault(repr(finding), (finding, set()))[1].update(map(str, held))

    if not model.checkpoint.complete:
        rules = [r for r in rules if not r.of_absence]
    for other, held in _views(model, targets):
        # Seen again: meanwhile the first view has derived what the files alone decide.
        seen = model.seen_by(other.target)
        method = seen.declaration.method if seen.declaration is not None else None
        applied = [r for r in rules if not r.methods or method in r.methods]
        for rule in applied:
            if rule.of_files and seen is model:
                add(rule.run(seen), targets)
            elif not (rule.of_files or rule.per_target):
                add(rule.run(seen), held)
        for target in held:
            own = seen.seen_by(target)
            for rule in applied:
                if rule.per_target:
                    add(rule.run(own), [target])
    names = tuple(dict.fromkeys(map(str, targets)))
    findings = [
        finding
        if len(held) == len(names)
        else replace(finding, targets=tuple(n for n in names if n in held))
        for finding, held in merged.values()
    ]
    return sorted(findings, key=lambda f: (f.severity.rank, f.rule))


def declared_facts(model: Model) -> dict[str, Any]:
    """What the config says, for people."""
    declaration = model.declaration
    facts: dict[str, Any] = {}
    if model.base_model is not None and model.base_model.usable:
        facts["base model"] = model.base_model.source
    names = model.checkpoint.config.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        facts["architecture"] = names[0]
    if declaration is None:
        return {**facts, "method": "none"}
    facts["method"] = declaration.method or "none"
    facts["origin"] = declaration.origin
    schemes = Counter(str(s) for s in model.schemes.values() if s is not None)
    if schemes:
        facts["schemes"] = dict(schemes.most_common(8))
    return facts


def observed_facts(model: Model) -> dict[str, Any]:
    """What the headers show, for people."""
    quantized = len(model.quantized_modules)
    types = Counter(t.dtype for t in model.checkpoint.tensors.values())
    method, release = model.declaration.method if model.declaration else "", model.target.release
    used = {s for s in model.schemes.values() if s is not None}
    minimum = max((minimum_capability(s, method, release) for s in used), default=0)
    return {
        **({"minimum GPU": f"sm{minimum}"} if minimum else {}),
        **_totals(model),
        "linear modules": len(model.linears),
        "stored quantized": quantized,
        "stored dense": len(model.linears) - quantized,
        "tensor types": dict(types.most_common(8)),
        QUANT_MAP: [
            {"modules": brace(row.kinds), "layers": row.text}
            for row in quant_map(
                (name, label(model.modules[name], model.sizes(name))) for name in model.linears
            )
        ],
    }


def _totals(model: Model) -> dict[str, Any]:
    """Parameters, bits per weight and the weights' share of memory on one of several GPUs."""
    found = statistics(model.modules, model.schemes, model.checkpoint.bytes_total)
    if not found.parameters:
        return {}
    sizes = ", ".join(f"tp {n}: {size(found.bytes // n)}" for n in (1, 2, 4, 8))
    return {
        "parameters": f"{found.parameters / 1e6:,.1f} million",
        "bits per weight": round(found.bits_per_weight, 2),
        "share quantized": f"{found.share:.0%}",
        "weights per GPU": sizes,
    }
