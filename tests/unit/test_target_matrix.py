"""Several targets in one run: who is asked what, and what the report says of each."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from quantgate.checkpoint.raw import RawCheckpoint, RawDocument, RawFile, assemble
from quantgate.findings import Fault, Verdict
from quantgate.report.as_json import to_json
from quantgate.report.markdown import to_markdown
from quantgate.report.model import Report
from quantgate.report.text import to_text
from quantgate.rules import all_rules
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from tests.support.build import data_size, header_bytes, healthy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.checkpoint import Checkpoint
    from quantgate.model import Model
    from quantgate.rules import Rule

NEW, OLD = Target("0.33.0"), Target("0.27.1")


def checkpoint(config: dict[str, Any], tensors: dict[str, str]) -> Checkpoint:
    """A checkpoint of one weight file."""
    head = header_bytes(tensors)
    document = RawDocument("config.json", json.dumps(config).encode())
    weights = RawFile("model.safetensors", len(head) + data_size(tensors), head[8:])
    return assemble(RawCheckpoint(source="model", configs=(document,), files=(weights,)))


def dense_attention(ignore: list[str]) -> Checkpoint:
    """W4A16 with dense q, k and v, and this ignore list beside the head."""
    config, tensors = healthy("pack")
    rows = {"q_proj": 256, "k_proj": 128, "v_proj": 128}
    for name in [n for n in tensors if n.split(".")[-2] in rows]:
        module = name.rpartition(".")[0]
        del tensors[name]
        tensors[f"{module}.weight"] = f"BF16[{rows[module.rpartition('.')[2]]},256]"
    config["quantization_config"]["ignore"] = ["lm_head", *ignore]
    return checkpoint(config, tensors)


@pytest.mark.parametrize(
    ("entry", "rule"),
    [("re:.*v_proj", "QG501"), ("re:.*qkv_proj", "QG416")],
)
def test_a_pattern_for_the_fused_name_works_from_0_30_on(entry: str, rule: str) -> None:
    """The same ignore list loads in new releases and is refused by older ones."""
    targets = (NEW, Target("0.30.0"), OLD, Target("0.19.1"))

    report = check_checkpoint(dense_attention([entry]), targets)

    assert [v for _, v in report.verdicts] == [Verdict.PASS, Verdict.PASS, Verdict.FAIL, "fail"]
    assert report.verdict is Verdict.FAIL
    blocking = [f for f in report.findings if f.severity == "error"]
    assert {f.rule for f in blocking} == {rule}
    assert all(f.targets == ("vllm=0.27.1,tp=1", "vllm=0.19.1,tp=1") for f in blocking)


def test_the_sentence_says_which_releases_load_the_model() -> None:
    """Every form of the report has it, with the rule that makes the difference."""
    targets = (OLD, NEW, Target("0.30.0"), Target("0.23.0"))
    report = check_checkpoint(dense_attention(["re:.*v_proj"]), targets)
    run = Report(targets, (report,))
    said = (
        "it loads in vLLM 0.30.0 and newer; it does not work in vLLM 0.27.1 and older: "
        "QG501 shards-disagree-ignore"
    )

    assert said in report.summary
    assert said in to_text(run)
    assert said in to_markdown(run)
    assert to_json(run)["models"][0]["by_target"] == {
        "vllm=0.27.1,tp=1": "fail",
        "vllm=0.33.0,tp=1": "pass",
        "vllm=0.30.0,tp=1": "pass",
        "vllm=0.23.0,tp=1": "fail",
    }


def test_targets_that_differ_in_the_gpu_are_named_one_by_one() -> None:
    """`and newer` is only said of releases."""
    targets = (NEW, replace(OLD, gpu="sm90"), replace(NEW, tensor_parallel=2))
    report = check_checkpoint(dense_attention(["re:.*v_proj"]), targets)

    assert (
        "loads in vLLM 0.33.0; vLLM 0.33.0, tensor parallel 2; it does not work in "
        "vLLM 0.27.1 on sm90: QG501"
    ) in report.summary


def test_a_finding_of_all_targets_names_none() -> None:
    """A fault that every release sees is told once and without targets."""
    config, tensors = healthy("gptq")
    config["quantization_config"]["bits"] = 8
    report = check_checkpoint(checkpoint(config, tensors), (NEW, OLD, Target("0.10.2")))

    assert [(f.rule, f.targets) for f in report.findings if f.severity == "error"] == [
        ("QG401", ())
    ]
    assert "targets checked" not in report.summary


def test_each_rule_runs_as_often_as_its_answer_can_differ() -> None:
    """Rules on files once, rules per target once each, the others once per view."""
    calls: list[tuple[str, str]] = []

    def spy(rule: str, kind: str, *, per_target: bool = False) -> Rule:
        def check(model: Model) -> Iterator[Fault]:
            calls.append((kind, model.target.release))
            yield Fault(message="seen")

        return replace(all_rules()[0], id=rule, per_target=per_target, check=check)

    rules = [
        spy("QG101", "files"),
        spy("QG501", "view"),
        spy("QG601", "target", per_target=True),
    ]
    config, tensors = healthy("pack")
    targets = (NEW, replace(NEW, gpu="sm90"), OLD, replace(NEW, tensor_parallel=2))

    report = check_checkpoint(checkpoint(config, tensors), targets, rules)

    assert [r for kind, r in calls if kind == "files"] == ["0.33.0"]
    assert [r for kind, r in calls if kind == "view"] == ["0.33.0", "0.27.1"]
    assert sum(kind == "target" for kind, _ in calls) == 4
    assert [f.targets for f in report.findings] == [(), (), ()]
