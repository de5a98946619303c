"""Checkpoints that the quantizers' own code wrote are judged as vLLM judges them.

The archives in tests/data/witness hold the headers of what the scripts beside this file wrote
with each tool; README.md has the releases. The slow test has a tool write them again and compares.
"""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from quantgate.checkpoint import open_checkpoint
from quantgate.findings import Severity
from quantgate.runner import check_checkpoint
from quantgate.targets import Target

ROOT = Path(__file__).parent.parent.parent
# By name; the part before the first underscore is the tool.
ARCHIVES = {p.name.partition(".")[0]: p for p in ROOT.glob("tests/data/witness/*.json.gz")}
# What a tool writes and vLLM refuses, with the one rule that says so; vLLM 0.32.0 was seen to
# stop at each of them in its config.
REFUSED = {
    "bitsandbytes_refused_bf16_storage": "QG304",
    "gptqmodel_refused_w4_act_order": "QG306",
    "gptqmodel_refused_w4_asym": "QG304",
    "modelopt_refused_int4_awq": "QG304",
    "modelopt_refused_int8_sq": "QG304",
    "modelopt_refused_mxfp4": "QG304",
    "modelopt_refused_w4a8_awq": "QG304",
    "torchao_refused_skip": "QG417",
}
RECORDED = {
    "autoround": 11,
    "bitsandbytes": 6,
    "compressed": 11,
    "gptqmodel": 10,
    "llmcompressor": 10,
    "modelopt": 12,
    "torchao": 7,
}
# The last release that has the method itself, where the newest one leaves it to a plugin.
LAST = {"bitsandbytes": Target("0.27.1")}


@pytest.mark.parametrize("name", sorted(ARCHIVES))
def test_recorded_checkpoint_is_judged_right(name: str) -> None:
    """Nothing above info is found in what vLLM loads, and one error in what it refuses."""
    target = LAST.get(name.partition("_")[0], Target())

    report = check_checkpoint(open_checkpoint(str(ARCHIVES[name])), [target])

    found = [f.rule for f in report.findings if f.severity is not Severity.INFO]
    assert report.stats.tensors > 30
    assert found == ([REFUSED[name]] if name in REFUSED else [])


def test_every_tool_is_recorded() -> None:
    """The recordings of every tool are there, and the refused ones among them."""
    assert Counter(name.partition("_")[0] for name in ARCHIVES) == RECORDED
    assert ARCHIVES.keys() >= REFUSED.keys()


@pytest.mark.e2e
@pytest.mark.parametrize("tool", RECORDED)
def test_tool_still_writes_the_recordings(tool: str, tmp_path: Path) -> None:
    """The tool's output today has the recorded configs, names, types and shapes."""
    python = ROOT / f".venv-witness-{tool}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{tool} is not installed; `make .venv-witness-{tool}/.ready` installs it")
    script = Path(__file__).with_name(f"write_{tool}.py")
    subprocess.run([python, script, tmp_path], check=True, capture_output=True)
    for name in (name for name in ARCHIVES if name.startswith(tool)):
        recorded = open_checkpoint(str(ARCHIVES[name]))
        written = open_checkpoint(str(tmp_path / name))

        assert written.config == recorded.config
        assert {t.name: (t.dtype, t.shape) for t in written.tensors.values()} == {
            t.name: (t.dtype, t.shape) for t in recorded.tensors.values()
        }
