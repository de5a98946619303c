"""The report as SARIF 2.1.0, which code scanning and editors read.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; what GitHub makes of it:
https://docs.github.com/en/code-security/reference/code-scanning/sarif-files/sarif-support. GitHub
refuses a result without a place, so a model that is not in the checkout has the address that its
config would have there.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from quantgate import __version__
from quantgate.findings import Severity, Verdict
from quantgate.report import words
from quantgate.report.inert import plain, plain_prose
from quantgate.report.places import CONFIG, Place, place_of
from quantgate.rules import DOCS_URL, find_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quantgate.findings import Finding
    from quantgate.report.model import ModelReport, Report
    from quantgate.report.places import Config

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
# GitHub takes at most 25,000 results in a run, and shows 5,000.
MAX_RESULTS = 5_000
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_RULE = re.compile(r"QG\d{3}", re.ASCII)


def to_sarif(report: Report, configs: Mapping[str, Config] | None = None) -> dict[str, Any]:
    """The report as SARIF values, worst findings first.

    Args:
        report: What was found.
        configs: The configs in the checkout, as `configs_in` finds them.
    """
    found = sorted(
        ((f, m) for m in report.models for f in m.findings), key=lambda pair: pair[0].severity.rank
    )
    shown = found[:MAX_RESULTS]
    ids = sorted({_rule_id(f) for f, _ in shown})
    run = {
        "tool": {
            "driver": {
                "name": "quantgate",
                "version": __version__,
                "informationUri": "https://github.com/quantgate/quantgate",
                "rules": [_rule(i) for i in ids],
            }
        },
        "automationDetails": {"id": "quantgate/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            "%SRCROOT%": {"description": {"text": "The root of the repository."}}
        },
        "invocations": [
            {
                "executionSuccessful": report.verdict is not Verdict.UNVERIFIED,
                "toolExecutionNotifications": [*_notifications(report, len(found) - len(shown))],
            }
        ],
        "results": [_result(f, m, ids, configs or {}) for f, m in shown],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def to_sarif_text(report: Report, configs: Mapping[str, Config] | None = None) -> str:
    """The report as a SARIF file: ASCII only, the same bytes every time."""
    return json.dumps(to_sarif(report, configs), indent=2, allow_nan=False) + "\n"


def _message(text: str) -> dict[str, str]:
    # `[text](address)` is a link in a SARIF message (section 3.11.6), and nothing of ours is.
    return {"text": text.replace("](", "] (")}


def _rule_id(finding: Finding) -> str:
    return finding.rule if _RULE.fullmatch(finding.rule) else "QG000"


def _rule(rule_id: str) -> dict[str, Any]:
    """What a reader learns about a rule; of one that this release lacks, its page."""
    rule, page = find_rule(rule_id), DOCS_URL.format(id=rule_id)
    if rule is None:
        return {"id": rule_id, "helpUri": page}
    return {
        "id": rule_id,
        "name": rule.name,
        "shortDescription": {"text": rule.name.replace("-", " ")},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.page, "markdown": rule.page},
        "helpUri": page,
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["quantization", "vllm"], "precision": "high"},
    }


def _result(
    finding: Finding, model: ModelReport, ids: list[str], configs: Mapping[str, Config]
) -> dict[str, Any]:
    rule = _rule_id(finding)
    return {
        "ruleId": rule,
        "ruleIndex": ids.index(rule),
        "level": _LEVELS[finding.severity],
        "message": _message("\n".join(_sentences(finding, model))),
        "locations": [_location(finding, model, configs)],
        "partialFingerprints": {"quantgate/v1": _fingerprint(finding, model)},
        "properties": {
            "outcome": finding.outcome.value,
            "confidence": finding.confidence.value,
            "tier": finding.tier,
            "count": finding.count,
            "unverified": finding.unverified,
        },
    }


def _sentences(finding: Finding, model: ModelReport) -> Iterable[str]:
    times = f" × {finding.count:,}" if finding.count > 1 else ""
    yield f"{plain(words.place(finding))}{times} in {plain(model.source)}"
    yield plain_prose(finding.message)
    if finding.expected:
        yield f"Expected {plain_prose(finding.expected)}"
    if finding.found:
        yield f"Found {plain_prose(finding.found)}"
    if finding.targets:
        yield f"Holds for {plain_prose(words.some_targets_words(finding.targets))}"
    if finding.fix:
        yield f"Fix: {plain_prose(finding.fix)}"


def _location(
    finding: Finding, model: ModelReport, configs: Mapping[str, Config]
) -> dict[str, Any]:
    place = place_of(finding, model, configs) or Place(f"{model.source}/{CONFIG}")
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(place.file), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": max(1, place.line)},
        },
        "logicalLocations": [{"fullyQualifiedName": plain(words.place(finding)), "kind": "module"}],
    }


def _uri(path: str) -> str:
    """A relative address that stays below its base, whatever the path."""
    parts = [p for p in path.replace("\\", "/").split("/") if p not in {"", ".", ".."}]
    return quote("/".join(plain(p) for p in parts), safe="/")


def _fingerprint(finding: Finding, model: ModelReport) -> str:
    """What makes it the same finding in the next run: rule, pattern and model."""
    text = json.dumps([finding.rule, finding.pattern, model.source])
    return hashlib.sha256(text.encode()).hexdigest()


def _notifications(report: Report, left_out: int) -> Iterable[dict[str, Any]]:
    for model in report.models:
        if model.verdict is Verdict.UNVERIFIED:
            text = f"{plain(model.source)} could not be verified. {plain_prose(model.summary)}"
            yield {"level": "error", "message": _message(text.strip())}
    if left_out:
        text = f"{words.plural(left_out, 'more finding')} in the JSON report"
        yield {"level": "warning", "message": _message(text)}
