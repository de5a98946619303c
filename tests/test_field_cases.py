"""Public bug reports as whole small checkpoints, judged as vLLM 0.32.0 judged them.

The collection is not part of the repository; without it these tests skip. Each report comes with a
repaired twin (`…+fixed`).
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from quantgate.checkpoint.raw import RawCheckpoint, RawDocument, RawFile, assemble
from quantgate.findings import Severity, Verdict
from quantgate.report.model import ModelReport
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from tests.support.build import data_size, header_bytes

FOLDER = Path(__file__).parent.parent.parent / "shared" / "cases"
CASES = FOLDER / "rebuilt.jsonl.gz"
pytestmark = pytest.mark.corpus

# Where the verdict is not what vLLM 0.32.0 did, and why.
DISAGREEMENTS = {
    "embedding-quantized-model-unaware": "the facts do not say which classes build the embedding "
    "without a quantization config (Qwen3.5 does, Llama does not)",
    "nvfp4-moe-weight-only-no-input-scale": "declared weight-only, but vLLM allocates input scales "
    "for ModelOpt's routed experts whatever is declared",
}

# Groups of reports that are held against the rule that must tell them: scales and KV scales,
# declarations, storage formats, files and indexes, false alarms.
GROUPS = "FGIJZ"
# Report → the release it is about and the rule that tells it there.
TOLD = {
    "autoround-hybrid-int4-fp8-scales-skipped": ("0.32.0", "QG419"),
    "modelopt-fp8-pb-wo-scale_inv-rank2": ("0.32.0", "QG411"),
    "actorder-static-on-channel-strategy": ("0.19.1", "QG304"),
    "ct-moe-asymmetric-unsupported": ("0.19.1", "QG606"),
    "ct-symmetric-config-but-zero-points-stored": ("0.32.0", "QG415"),
    "gptq-dynamic-bits-old-vllm": ("0.32.0", "QG304"),
    "quant-config-missing-but-tensors-quantized": ("0.32.0", "QG302"),
    "quant-method-empty": ("0.32.0", "QG302"),
    "w4a8-int-channel-qwen3-4b": ("0.19.1", "QG610"),
    "awq-marlin-export-no-qzeros": ("0.32.0", "QG429"),
    "bnb-8bit-prequant-unsupported": ("0.32.0", "QG605"),
    "bnb-quant-storage-bf16": ("0.32.0", "QG605"),
    "torchao-v1-int8wo-config": ("0.32.0", "QG304"),
    "gptq-desc_act-tp2-rocm": ("0.32.0", "QG306"),
    "nvfp4-weight-transposed": ("0.32.0", "QG405"),
    "sparse-bitmask-embedding": ("0.32.0", "QG304"),
    "duplicate-tensor-in-two-shards": ("0.32.0", "QG205"),
    "gptq-missing-qweight-stale-index": ("0.32.0", "QG408"),
    "index-lists-missing-shard": ("0.32.0", "QG201"),
    "index-lists-tensor-absent-from-shard": ("0.32.0", "QG202"),
}
_OLD = "it fails in a release older than the first one with facts, and loads in 0.32.0"
# Report → why no rule tells it.
NOT_TOLD = {
    "kv-scales-architecture-without-remap": _OLD,
    "ct-asymmetric-wna16-old-vllm": _OLD,
    "quant-config-nested-in-llm_config": _OLD,
    "nvfp4-moe-weight-only-no-input-scale": DISAGREEMENTS["nvfp4-moe-weight-only-no-input-scale"],
    "quark-renames-block-fp8-scale": "the name that Quark's block scale had before September 2026 "
    "is not among the facts; 0.32.0 loads it",
    "awq-gemma3-dtype-deadlock": "which data type the engine runs in is its user's choice",
    "ok-consolidated-plus-hf-shards": "vLLM reads Mistral's own format here; QG308 warns that its "
    "tensors are not known",
}


@cache
def load_reports() -> dict[str, dict[str, Any]]:
    """Every report of `GROUPS` by its id; none where the collection is absent."""
    path = FOLDER / "field_cases.jsonl"
    if not path.exists():
        return {}
    reports = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {r["id"]: r for r in reports if r["group"][0] in GROUPS}


@cache
def load_cases() -> list[dict[str, Any]]:
    """Every rebuilt case; none where the collection is absent."""
    if not CASES.exists():
        return []
    with gzip.open(CASES, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def check(case: dict[str, Any], release: str = "0.32.0") -> ModelReport:
    """The report on a case, for the platform and size that vLLM ran with."""
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
    return check_checkpoint(assemble(raw), [Target(release, gpu, case["tp"])])


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


@pytest.mark.skipif(not load_reports(), reason="the collection of reports is not here")
def test_every_report_is_accounted_for() -> None:
    """A report of these groups is told by a rule, must be left alone, or has a reason."""
    quiet = {name for name, r in load_reports().items() if r["expected_verdict"] == "ok"}

    assert load_reports().keys() == TOLD.keys() | NOT_TOLD.keys() | quiet
    assert not TOLD.keys() & (NOT_TOLD.keys() | quiet)


@pytest.mark.parametrize("name", load_reports())
def test_report_is_told_by_its_rule(name: str) -> None:
    """The rule that knows the fault speaks of it, and of a false alarm none does."""
    case = next(c for c in load_cases() if c["case"] == name)
    release, rule = TOLD.get(name, ("0.32.0", ""))

    report = check(case, release)

    told = {f.rule for f in report.findings if f.severity is not Severity.INFO}
    if rule:
        assert rule in told
    elif name in NOT_TOLD:
        assert told <= {"QG308"}, "told by now: move it to TOLD"
    else:
        assert not told
