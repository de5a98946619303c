"""Our matching against vLLM's own functions, on generated declarations and names.

Needs a Python with vLLM 0.32.0 (`VLLM_PYTHON`); part of `make e2e`.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from quantgate.vllm.dialect import Dialect, Disagreement
from quantgate.vllm.mapper import NameMapper
from quantgate.vllm.patterns import Entries, PatternError, regex_matches

PYTHON = os.environ.get("VLLM_PYTHON", "")
COUNT = 20_000
LEAVES = (
    "q_proj k_proj v_proj qkv_proj o_proj gate_proj up_proj gate_up_proj down_proj gate".split()
)
PACKED = (
    {"qkv_proj": ["q_proj", "k_proj", "v_proj"], "gate_up_proj": ["gate_proj", "up_proj"]},
    {"qkv_proj": ["qkv_proj"], "gate_up_proj": ["gate_up_proj"]},
    {"in_proj": ["in_proj_qkvz", "in_proj_ba"], "qkv": ["q", "k", "v"]},
    {},
)
CLASSES = "QKVParallelLinear MergedColumnParallelLinear RowParallelLinear ParallelLMHead".split()
PATTERNS = (
    *(r".*v_proj", r".*[qkv]_proj$", r".*up_proj", r".*mlp.gate$", r"model\.layers\.[0-3]\..*"),
    *(r".*self_attn.*", r"^lm_head$", r"(", r"[", r".*experts.*", r".*\.(q|k)_proj", "", r"layers"),
)


def name(rng: random.Random) -> str:
    """A module name as vLLM would give it."""
    prefix = rng.choice(["model.", "language_model.model.", "", "model.language_model."])
    block = rng.choice(["self_attn", "mlp", "mlp.experts", "mlp.shared_expert", "qkv_proj_block"])
    return f"{prefix}layers.{rng.randrange(12)}.{block}.{rng.choice(LEAVES)}"


def entry(rng: random.Random, base: str) -> str:
    """An entry of a list: near the name, a pattern, a class or something else."""
    kind = rng.randrange(6)
    if kind == 0:
        return base
    if kind == 1:
        return base.rpartition(".")[0] + "." + rng.choice(LEAVES)
    if kind == 2:
        return "re:" + rng.choice(PATTERNS)
    if kind == 3:
        return rng.choice(
            ["Linear", "linear", "LlamaMLP", "lm_head", "RowParallelLinear", "self_attn"]
        )
    if kind == 4:
        return rng.choice(LEAVES)
    return name(rng)


def tables(rng: random.Random) -> dict[str, Any]:
    """A mapper of a few entries."""

    def maybe(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(rng.sample(pairs, rng.randrange(len(pairs) + 1)))

    return {
        "regex": maybe([(r"layers\.(\d+)\.mlp", r"blocks.\1.ffn"), (r"^vision", None)]),
        "substr": maybe([("self_attn", "attn"), (".mlp.experts", ".moe"), ("rotary", None)]),
        "stacked": maybe([(".q_proj", [".qkv_proj", "q"]), (".gate_proj", [".gate_up_proj", 0])]),
        "prefix": maybe(
            [("model.language_model.", "lm.model."), ("model.", "m."), ("lm_head", None)]
        ),
        "suffix": maybe([("gate", "router"), (".scale", ".weight_scale"), ("down_proj", None)]),
    }  # fmt: skip


def question(rng: random.Random) -> dict[str, Any]:
    """One question for both sides."""
    base, packed = name(rng), rng.choice(PACKED)
    entries = [entry(rng, base) for _ in range(rng.randrange(5))]
    kind = rng.choice("ignore target skipped gptq dynamic map rename".split())
    q: dict[str, Any] = {"ask": kind, "name": base, "entries": entries, "packed": packed}
    if kind == "target":
        q["cls"] = rng.choice(CLASSES)
    elif kind == "skipped":
        q["mode"] = rng.choice(["exact", "substring", "suffix"])
    elif kind == "dynamic":
        rules = [rng.choice(["-:", "+:", ""]) + rng.choice(PATTERNS) for _ in range(3)]
        q["entries"] = {r: {"bits": rng.choice([4, 8])} for r in rules}
    elif kind in {"map", "rename"}:
        q["tables"] = tables(rng)
    return q


def ours(q: dict[str, Any], dialect: Dialect) -> Any:
    """Our answer in the oracle's form."""
    where = (q["name"], q["entries"], q["packed"])
    entries = Entries(q["entries"])
    match q["ask"]:
        case "ignore":
            return dialect.ignored(q["name"], entries, q["packed"])
        case "target":
            return dialect.target(q["name"], q["cls"], entries, q["packed"])
        case "skipped":
            return dialect.skipped(*where, q["mode"])
        case "gptq":
            return dialect.gptq_listed(*where)
        case "dynamic":
            for pattern, overrides in q["entries"].items():
                skip = pattern.startswith("-:")
                if regex_matches(pattern.removeprefix("-:" if skip else "+:"), q["name"]):
                    return False if skip else overrides
            return None
        case "map":
            found = NameMapper.from_tables(q["tables"]).map(q["name"])
            return None if found is None else [found[0], found[1][0] if found[1] else None]
        case "rename":
            mapper = NameMapper.from_tables(q["tables"]).renames()
            return [new[0] for entry in q["entries"] if (new := mapper.map(entry)) is not None]
    raise ValueError(q["ask"])


@pytest.mark.e2e
def test_same_answers_as_vllm(capsys: pytest.CaptureFixture[str]) -> None:
    """Thousands of generated questions get vLLM's answer, or an error where vLLM raises."""
    if not PYTHON:
        pytest.skip("VLLM_PYTHON does not name a Python with vLLM")
    rng = random.Random(20260101)
    questions = [question(rng) for _ in range(COUNT)]
    done = subprocess.run(
        [PYTHON, Path(__file__).with_name("oracle.py")],
        input="\n".join(map(json.dumps, questions)),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "VLLM_LOGGING_LEVEL": "ERROR"},
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == COUNT
    dialect = Dialect.of((0, 32, 0))
    counts: Counter[str] = Counter()
    for q, theirs in zip(questions, answers, strict=True):
        try:
            mine = ours(q, dialect)
        except PatternError:
            mine = "error"
        if isinstance(mine, Disagreement):
            mine = "error"
        wanted = "error" if "error" in theirs else theirs["value"]
        assert mine == wanted, (q, mine, theirs)
        counts[f"{q['ask']}, {'raises' if wanted == 'error' else 'answers'}"] += 1
    with capsys.disabled():
        sys.stdout.write(f"\n{COUNT} questions, no difference: {dict(sorted(counts.items()))}\n")
    assert all(n > 50 for ask, n in counts.items() if "raises" not in ask)
