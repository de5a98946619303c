"""Public bug reports as whole small checkpoints, judged as vLLM 0.32.0 judged them.

The collection is not part of the repository; without it these tests skip. Each report comes with a
repaired twin (`…+fixed`).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from quantgate.checkpoint.raw import RawCheckpoint, RawDocument, RawFile, assemble
from quantgate.findings import Severity, Verdict
from quantgate.report.model import ModelReport
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from tests.support.build import data_size, header_bytes

CASES = Path(__file__).parent.parent.parent / "shared" / "cases" / "rebuilt.jsonl.gz"
pytestmark = pytest.mark.corpus

# Where the verdict is not what vLLM 0.32.0 did, and why.
DISAGREEMENTS = {
    "embedding-quantized-model-unaware": "the facts do not say which classes build the embedding "
    "without a quantization config (Qwen3.5 does, Llama does not)",
    "nvfp4-moe-weight-only-no-input-scale": "declared weight-only, but vLLM allocates input scales "
    "for ModelOpt's routed experts whatever is declared",
}


def load_cases() -> list[dict[str, Any]]:
    """Every rebuilt case; none where the collection is absent."""
    if not CASES.exists():
        return []
    with gzip.open(CASES, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def check(case: dict[str, Any]) -> ModelReport:
    """The report on a case, for the release, platform and size that vLLM ran with."""
    files = []
    for name, rows in case["weights"].items():
        tensors = {n: f"{dtype}{shape}" for n, (dtype, shape) in rows.items()}
        head = header_bytes(tensors)
        files.append(RawFile(name, len(head) + data_size(tensors), head[8:]))
    documents = {n: json.dumps(value).encode() for n, value in case["json"].items()}
    index = documents.pop("model.safetensors.index.json", None)
    raw = RawCheckpoint(
        source=case["case"],
        configs=tuple(RawDocument(n, blob) for n, blob in documents.items()),
        index=RawDocument("model.safetensors.index.json", index) if index else None,
        files=tuple(files),
    )
    kind, _, capability = case["platform"].partition(":")
    gpu = f"sm{capability.replace('.', '')}" if capability else kind
    return check_checkpoint(assemble(raw), [Target("0.32.0", gpu, case["tp"])])


@pytest.mark.skipif(not CASES.exists(), reason="the collection of rebuilt reports is not here")
def test_the_collection_is_whole() -> None:
    """The rest of this file has something to judge."""
    assert len(load_cases()) > 100


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: str(case["case"]))
def test_verdict_is_what_vllm_did(case: dict[str, Any]) -> None:
    """A report that fails or is silently wrong in 0.32.0 is blocked, and nothing else is."""
    report = check(case)

    if any(f.rule == "QG308" for f in report.findings):
        pytest.skip("the method's tensors are not known yet")
    agrees = (report.verdict is Verdict.FAIL) == (case["truth"]["outcome"] != "loads")
    if case["case"] in DISAGREEMENTS:
        assert not agrees, "agrees by now: take it out of DISAGREEMENTS"
        return
    errors = [(f.rule, f.message) for f in report.findings if f.severity is Severity.ERROR]
    assert agrees, (report.verdict, case["truth"], errors)
