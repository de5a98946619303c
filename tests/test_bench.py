"""Small checkpoints whose outcome vLLM 0.32.0's own loader decided.

The collection is not part of the repository; without it these tests skip.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from quantgate.findings import Severity, Verdict
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from tests.support.memory import checkpoint_of_files

CASES = Path(__file__).parent.parent.parent / "shared" / "bench" / "open.jsonl.gz"
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(
        not CASES.exists(), reason="the collection of small checkpoints is not here"
    ),
]


@pytest.fixture(scope="module")
def judged() -> list[tuple[dict[str, Any], Verdict, list[str]]]:
    """(case, verdict, findings above info) of every case that has an outcome."""
    found = []
    with gzip.open(CASES, "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            if case["truth"]["outcome"] not in {"fails", "silent", "loads"}:
                continue
            kind, _, capability = case["platform"].partition(":")
            gpu = f"sm{capability.replace('.', '')}" if capability else kind
            checkpoint = checkpoint_of_files(case["case"], case["json"], case["weights"])
            report = check_checkpoint(checkpoint, [Target("0.32.0", gpu, case["tp"])])
            above = [f.rule for f in report.findings if f.severity is not Severity.INFO]
            found.append((case, report.verdict, above))
    return found


def test_healthy_models_are_left_alone(
    judged: list[tuple[dict[str, Any], Verdict, list[str]]],
) -> None:
    """Nothing above info is said of an unmutated checkpoint that vLLM loads."""
    healthy = [j for j in judged if not j[0]["mutation"] and j[0]["truth"]["outcome"] == "loads"]

    assert len(healthy) > 900
    assert [(case["case"], above) for case, _, above in healthy if above] == []


def test_agreement_with_vllm(judged: list[tuple[dict[str, Any], Verdict, list[str]]]) -> None:
    """What fails or is silently wrong is blocked, and what loads is not."""
    outcomes = Counter(case["truth"]["outcome"] for case, _, _ in judged)
    blocked = Counter(case["truth"]["outcome"] for case, v, _ in judged if v is Verdict.FAIL)

    assert blocked["loads"] == 0
    assert blocked["fails"] / outcomes["fails"] > 0.97
    assert blocked["silent"] / outcomes["silent"] > 0.97
