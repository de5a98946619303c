"""No crash on real input: public configs, indexes and pointers, and public bug reports.

The collection is not part of the repository; without it these tests skip.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from quantgate.findings import Verdict
from quantgate.report.as_json import to_json_text
from quantgate.report.markdown import to_markdown
from quantgate.report.model import Report
from quantgate.report.text import to_text
from quantgate.runner import check_checkpoint, check_models
from quantgate.targets import Target
from tests.support.build import BITS
from tests.support.memory import checkpoint_of

SHARED = Path(__file__).parent.parent.parent / "shared"
pytestmark = pytest.mark.corpus
needs_collection = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the collection of real checkpoints is not here"
)


def model_folders() -> list[Path]:
    """Every folder of the collection with a config or weight files."""
    names = ("config.json", "*.safetensors", "*.safetensors.index.json")
    found = {p.parent for n in names for p in (SHARED / "corpus").rglob(n)}
    return sorted(found)


def field_cases() -> list[dict[str, Any]]:
    """The reconstructed public bug reports."""
    path = SHARED / "cases" / "field_cases.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@needs_collection
def test_real_folders_are_checked_without_a_crash() -> None:
    """Every real folder gets a verdict and every form of the report; none passes unseen."""
    folders = model_folders()
    assert len(folders) > 100

    report = check_models([str(p) for p in folders])

    assert to_text(report)
    assert to_json_text(report)
    assert to_markdown(report, budget=1 << 20)
    for model in report.models:
        assert "quantgate itself failed" not in model.summary, (model.source, model.summary)
        read = [f for f in model.findings if f.unverified]
        assert read or model.stats.tensors, (model.source, model.verdict)


@needs_collection
@pytest.mark.parametrize("case", field_cases(), ids=lambda c: c["id"])
def test_field_cases_are_checked_without_a_crash(case: dict[str, Any]) -> None:
    """The fragment of every public bug report is checked and rendered."""
    given = case["minimal_input"]
    tensors = {}
    for name, dtype, shape in given.get("tensors", []):
        known = dtype if dtype in BITS else "U8"
        if BITS[known] * math.prod(shape) % 8 == 0:
            tensors[name] = f"{known}[{','.join(map(str, shape))}]"
    checkpoint = checkpoint_of(given.get("config", {}), tensors)

    model = check_checkpoint(checkpoint, [Target()])

    assert model.verdict in set(Verdict)
    assert to_text(Report((Target(),), (model,)))
