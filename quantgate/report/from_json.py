"""A report read back from its JSON form, which may come from a stranger.

Where a pull request comes from a fork, its own workflow writes the JSON and a trusted one renders
it. So the text is bounded and validated against `schema.json`, and whatever decides is derived
again: verdicts from the findings, summaries from both, links from the ids of the rules. A forged
report can hide its findings, which the job that blocks the merge does not read from here, but it
cannot say more than a report can say.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NoReturn

from quantgate.findings import Confidence, Finding, Outcome, Severity, Verdict
from quantgate.report.as_json import plain_value
from quantgate.report.inert import plain
from quantgate.report.model import ModelReport, Report, ResolvedTarget, Stats, TierResult
from quantgate.report.settle import settled
from quantgate.rules import DOCS_URL
from quantgate.targets import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jsonschema import Draft202012Validator

# A model with its resolution takes about 10 kB: room for some thousand models.
MAX_BYTES = 32 * 1024 * 1024


class ReportError(ValueError):
    """The text is not a report of quantgate; the message is safe to print."""


def load_report(text: str) -> Report:
    """The report that `to_json_text` wrote.

    A verdict is never better than the findings and tiers beneath it; what a stranger claims can
    only make it worse.

    Raises:
        ReportError: Too long, not JSON, or not what `schema.json` describes.
    """
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise ReportError(f"the report is longer than {MAX_BYTES:,} bytes")
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"the report is not JSON: {plain(str(error))}") from None
    try:
        wrong = next(_validator().iter_errors(value), None)
    except RecursionError:
        raise ReportError("the report is nested too deep") from None
    if wrong is not None:
        place = plain(wrong.json_path)
        raise ReportError(f"not a report of quantgate: {plain(wrong.message, 300)} at {place}")
    return Report(
        tuple(map(_target, value["targets"])),
        tuple(map(_model, value["models"])),
        value.get("unchanged", 0),
        tuple(value.get("notes", ())),
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a key given twice would be read one way here and another way elsewhere."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # noqa: PLC0415  slow, and most runs only write

    schema = resources.files("quantgate.report").joinpath("schema.json").read_text("utf-8")
    return Draft202012Validator(json.loads(schema))


def _target(value: Mapping[str, Any]) -> Target:
    target = Target(value["release"], value["gpu"], value["tensor_parallel"])
    try:
        known = Target.parse(str(target))
    except ValueError as error:
        raise ReportError(plain(str(error), 300)) from None
    if known != target:
        raise ReportError(f"{plain(str(target))} is not a target")
    return known


def _model(value: Mapping[str, Any]) -> ModelReport:
    verdicts = value.get("by_target", {}).items()
    return settled(
        ModelReport(
            source=value["source"],
            revision=value["revision"],
            verdict=Verdict(value["verdict"]),
            summary=value["summary"],
            findings=tuple(map(_finding, value["findings"])),
            declared=plain_value(value["declared"]),
            observed=plain_value(value["observed"]),
            resolution=tuple(map(_resolved, value["resolution"])),
            stats=Stats(**value["stats"]),
            verdicts=tuple((_target_name(name), Verdict(v)) for name, v in verdicts),
            tiers=tuple(map(_tier, value.get("tiers", ()))),
        )
    )


def _target_name(text: str) -> str:
    try:
        known = str(Target.parse(text))
    except ValueError as error:
        raise ReportError(plain(str(error), 300)) from None
    if known != text:
        raise ReportError(f"{plain(text)} is not a target")
    return known


def _tier(value: Mapping[str, Any]) -> TierResult:
    verdict, facts = Verdict(value["verdict"]), plain_value(value["facts"])
    return TierResult(value["tier"], verdict, value["summary"], facts)


def _finding(value: Mapping[str, Any]) -> Finding:
    # The only link in a report: it leads to the page of the rule, or nowhere.
    docs = DOCS_URL.format(id=value["rule"])
    return Finding(
        **{
            **value,
            "severity": Severity(value["severity"]),
            "outcome": Outcome(value["outcome"]),
            "confidence": Confidence(value["confidence"]),
            "examples": tuple(value["examples"]),
            "patch": tuple(plain_value(op) for op in value["patch"]),
            "targets": tuple(value["targets"]),
            "docs": docs if value["docs"] == docs else "",
        }
    )


def _resolved(value: Mapping[str, Any]) -> ResolvedTarget:
    first, end = value["rows"]
    return ResolvedTarget(**{**value, "rows": (first, end)})
