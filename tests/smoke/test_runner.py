"""The parent's side of the smoke load, with children that misbehave. No vLLM is needed."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quantgate.checkpoint.archive import write_archive
from quantgate.checkpoint.sources import read_source
from quantgate.cli import main
from quantgate.report.from_json import load_report
from quantgate.vllm.children.process import Limits
from quantgate.vllm.smoke import Settings, SmokeError, SmokeOutcome, Thresholds, smoke_load
from quantgate.vllm.smoke.settings import bundled, prompts_in
from quantgate.vllm.smoke.tier import tier_result
from tests.support.build import LLAMA, write_checkpoint
from tests.support.fake_child import vllm_python

if TYPE_CHECKING:
    from collections.abc import Callable

    from quantgate.vllm.smoke import SmokeLoad

EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = Limits(seconds=20, memory=1 << 30)
HEAD = """
def up(gpu="cpu"):
    tell("ready", release="0.32.0", libraries="torch 2.13.0", device={"gpu": gpu, "name": "it"})
def spoke(chance=-1.0, ids=range(20), **more):
    ids = list(ids)
    tell("done", result={
        "outcome": "spoke", "vocabulary": 1000, "dtype": job["dtype"],
        "text": {"ids": ids, "logprobs": [chance] * 19, "top": [[[i, -1.0]] for i in ids[1:]]},
        "answers": [{"ids": list(range(9)), "text": "well", "logprobs": [-1.0] * 9}] * 4,
        "layers": [{"layers": "a.*.b", "method": "M", "scheme": "S", "kernel": "K", "count": 2}],
        **more,
    })
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A small model with a tokenizer."""
    files = {"model.safetensors": {"a.weight": "F16[2,4]"}}
    return str(write_checkpoint(tmp_path / "model", LLAMA, files, {"tokenizer.json": {}}))


def settings(tmp_path: Path, script: str, **more: object) -> Settings:
    """Settings with a child that runs the script."""
    python = vllm_python(tmp_path, HEAD + script)
    return replace(Settings(vllm_python=python, limits=QUICK), **more)


def load(model: str, tmp_path: Path, script: str, **more: object) -> SmokeLoad:
    """The answer for one model."""
    (result,) = smoke_load([model], settings(tmp_path, script, **more)).results
    return result


def test_sane_model_works(model: str, tmp_path: Path) -> None:
    """What the child said is in the result."""
    found = load(model, tmp_path, "up()\ntell('phase', name='load')\nspoke(load_seconds=2.5)")
    assert (found.outcome, found.complaints) == (SmokeOutcome.WORKS, ())
    assert str(found.target) == "vllm=0.32.0,gpu=cpu,tp=1"
    assert list(map(str, found.layers)) == ["a.*.b × 2: M, S, K"]
    assert (found.load_seconds, found.device) == (2.5, "it")
    assert dict(found.compared)["perplexity"] == 2.718


def test_a_full_disk_is_told(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up costs the models that find it full, and not the whole run."""
    real, written = Path.write_text, []

    def full(path: Path, *more: Any, **named: Any) -> int:
        if path.name == "job.json":
            written.append(path)
            if len(written) == 1:
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, *more, **named)

    given = settings(tmp_path, "up(); spoke()")
    monkeypatch.setattr(Path, "write_text", full)
    first, second = smoke_load([model, model], given).results
    assert (first.outcome, first.reason) == (SmokeOutcome.UNKNOWN, "the disk is full")
    assert second.outcome is SmokeOutcome.WORKS


def test_no_scratch_folder(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a place to work in, nothing is tried, and it is said why."""
    given = settings(tmp_path, "up(); spoke()")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(SmokeError, match="no scratch folder, the disk refused: No such file"):
        smoke_load([model], given)


def test_nonsense_is_silent(model: str, tmp_path: Path) -> None:
    """A model that loads and cannot read English is silently wrong."""
    found = load(model, tmp_path, "up(); spoke(-8.0)")
    assert found.outcome is SmokeOutcome.SILENT
    assert "perplexity of plain English is 2,981.0" in found.complaints[0]


def test_thresholds_count(model: str, tmp_path: Path) -> None:
    """What is accepted is the user's to say."""
    found = load(model, tmp_path, "up(); spoke(-8.0)", thresholds=Thresholds(perplexity=3000))
    assert found.outcome is SmokeOutcome.WORKS


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("a.weight_scale", SmokeOutcome.SILENT), ("a.g_idx", SmokeOutcome.WORKS)],
)
def test_never_loaded_parameter(
    name: str, outcome: SmokeOutcome, model: str, tmp_path: Path
) -> None:
    """A scale that nothing was loaded into is a fault; an index that may be missing is a note."""
    lost = {"count": 1, "names": [name]}
    found = load(model, tmp_path, f"up(); spoke(not_loaded={lost!r})")
    assert found.outcome is outcome
    assert f"nothing was loaded into {name}" in (*found.complaints, *found.notes)


def test_failure_is_one(model: str, tmp_path: Path) -> None:
    """An exception of vLLM's is a failure, with the child's last words."""
    script = """
    print("\\x1b[31mfatal", flush=True)
    up()
    tell("done", result={"outcome": "fails", "phase": "load", "exception": "KeyError",
         "message": "lm_head"})
    """
    found = load(model, tmp_path, "import time\n" + "\n".join(map(str.strip, script.splitlines())))
    assert (found.outcome, found.phase, found.message) == (SmokeOutcome.FAILS, "load", "lm_head")


WHERE = "/x/site-packages/vllm"
POINTS = """
up(); tell("phase", name="load")
def ends(rank, *lines, stamp="ERROR 11-30 14:04:53 [multiproc_executor.py:953] "):
    head = f"(Worker_TP{rank} pid={7 + rank}) {stamp}"
    return [head + line for line in ("WorkerProc failed to start.",
        "Traceback (most recent call last):",
        '  File "WHERE/v1/executor/multiproc_executor.py", line 920, in worker_main',
        "    worker = WorkerProc(*args, **kwargs)",
        '  File "WHERE/model_executor/models/llama.py", line 5, in load_weights',
        '  File "WHERE/model_executor/parameter.py", line 218, in load_row_parallel_weight',
        '  File "/x/torch/_tensor.py", line 3, in narrow', *lines)]
def mixed(*records):
    for lines in zip(*records): print("\\r\\n".join(lines))
    for n in range(100): print("(MainProcess pid=1) WARNING [shutdown] waiting", flush=True)
def points():
    tell("done", result={"outcome": "unknown", "reason": "its log does not say why",
        "elsewhere": True, "phase": "load", "exception": "Exception", "message": "See root cause",
        "where": "multiproc_executor.py:815"})
""".replace("WHERE", WHERE)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
NARROW = "RuntimeError: start (64) + length (64) exceeds dimension size (64)."
NCCL = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:94"
GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Connection closed by …"


def test_cause_is_in_the_log_of_another_rank(model: str, tmp_path: Path) -> None:
    """What a rank raised is the failure, wherever it stands in a log that was long since left."""
    script = f"{POINTS}\nmixed(ends(0, {NARROW!r}), ends(1, {NARROW!r})); points()"
    found = load(model, tmp_path, script, tensor_parallel=2)
    assert (found.outcome, found.phase) == (SmokeOutcome.FAILS, "load")
    assert found.exception == "RuntimeError"
    assert found.message == "start (64) + length (64) exceeds dimension size (64)."
    assert found.where == "parameter.py:218"
    assert len(found.log) == 20


@pytest.mark.parametrize(
    ("first", "second", "outcome", "words"),
    [
        (OOM, NARROW, SmokeOutcome.UNKNOWN, "too little memory"),
        (NARROW, OOM, SmokeOutcome.UNKNOWN, "too little memory"),
        (NCCL, NCCL, SmokeOutcome.UNKNOWN, "could not talk to each other"),
        (GLOO, "AssertionError", SmokeOutcome.FAILS, ""),
        ("AssertionError", NCCL, SmokeOutcome.FAILS, ""),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", GLOO, "unknown", "nin"),
        ("Exception: failed, see root cause above", "SystemExit", "unknown", "does not say why"),
    ],
)
def test_what_ranks_lack(
    first: str, second: str, outcome: SmokeOutcome, words: str, model: str, tmp_path: Path
) -> None:
    """The machine's fault in any rank counts; a rank that lost another one says nothing."""
    script = f"{POINTS}\nmixed(ends(0, {first!r}), ends(1, {second!r})); points()"
    found = load(model, tmp_path, script, tensor_parallel=2)
    assert found.outcome == outcome
    assert words in found.reason
    if outcome is SmokeOutcome.FAILS:
        assert (found.exception, found.message) == ("AssertionError", "")


@pytest.mark.parametrize(
    "said",
    [
        "pass",
        "print('Traceback (most recent call last):')",
        "print('Traceback (most recent call last):')\n"
        """print('  File "/x/vllm/a.py", line 1, in f\\nKeyError')""",
    ],
)
def test_cause_that_nobody_tells(said: str, model: str, tmp_path: Path) -> None:
    """A rank that dies without a word, and tracebacks of something else, blame no model."""
    found = load(model, tmp_path, f"{POINTS}\n{said}\npoints()", tensor_parallel=2)
    assert found.outcome is SmokeOutcome.UNKNOWN
    assert found.reason == "its log does not say why"


def test_reference_is_compared(tmp_path: Path) -> None:
    """The reference is loaded first, and what it says is the measure."""
    files = {"model.safetensors": {"a.weight": "F16[2,4]"}}
    base, model = (
        str(write_checkpoint(tmp_path / n, LLAMA, files, {"tokenizer.json": {}}))
        for n in ("base", "model")
    )
    script = """
    where = os.readlink(job["folder"] + "/config.json")
    up(); spoke(-1.0 if "/base/" in where else -2.0)
    """
    (found,) = smoke_load(
        [model], settings(tmp_path, textwrap.dedent(script)), reference=base
    ).results
    assert found.outcome is SmokeOutcome.SILENT
    assert "2.72 times that of the reference" in found.complaints[0]


def test_reference_that_does_not_speak(model: str, tmp_path: Path) -> None:
    """Without the reference a model that seems sane is not verified; a fault remains one."""
    python = settings(tmp_path, "up(); spoke()")
    (found,) = smoke_load([model], python, reference=str(tmp_path / "nothing")).results
    assert found.outcome is SmokeOutcome.UNKNOWN
    assert found.reason.startswith("the reference did not speak: There is no")
    python = settings(tmp_path, "up(); spoke(-8.0)")
    (found,) = smoke_load([model], python, reference=str(tmp_path / "nothing")).results
    assert found.outcome is SmokeOutcome.SILENT


def test_illegal_instruction_is_tried_in_float16(model: str, tmp_path: Path) -> None:
    """A processor without bfloat16 costs a second try, and the report says so."""
    script = "up()\nif job['dtype'] != 'float16': os.kill(os.getpid(), signal.SIGILL)\nspoke()"
    found = load(model, tmp_path, script, dtype="bfloat16")
    assert found.outcome is SmokeOutcome.WORKS
    assert found.notes == (
        "this processor lacks an instruction that vLLM used for bfloat16; float16 was taken",
    )


def test_illegal_instruction_in_float16(model: str, tmp_path: Path) -> None:
    """Where float16 ends the same way nobody knows what the model would do."""
    found = load(model, tmp_path, "up(); os.kill(os.getpid(), signal.SIGILL)")
    assert found.outcome is SmokeOutcome.UNKNOWN
    assert found.reason.startswith("the child process was ended by SIGILL before it began to load")
    assert found.reason.endswith("this processor lacks an instruction that vLLM used")


def test_killed_child(model: str, tmp_path: Path) -> None:
    """A child that the system kills leaves the model unverified, and says where it was."""
    script = "up(); tell('phase', name='load'); os.kill(os.getpid(), signal.SIGKILL)"
    found = load(model, tmp_path, script)
    assert found.reason == (
        "the child process was ended by SIGKILL while it loaded; "
        "the system may have run out of memory"
    )


def test_hanging_child(model: str, tmp_path: Path) -> None:
    """A child that hangs is ended at its limit."""
    found = load(model, tmp_path, "up(); time.sleep(1000)", limits=Limits(1, 1 << 30))
    assert found.reason.startswith("the child process took longer than 1 seconds")


@pytest.mark.parametrize(
    "script",
    [
        "up(); spoke(ids=range(3))",
        "up(); spoke(answers=[])",
        "up(); spoke(vocabulary=-1)",
        "up(); spoke(layers=[{}])",
        "up(); spoke(outcome='works')",
        "up(); spoke('x')",
        "up('sm1000'); spoke()",
        "up(); tell('phase', name='\\x1b'); spoke()",
        "up(); tell('end')",
        "up()",
    ],
)
def test_nonsense_of_a_child_is_no_answer(script: str, model: str, tmp_path: Path) -> None:
    """Whatever a child says that is no answer leaves the model unverified, or stops the run."""
    try:
        found = load(model, tmp_path, script)
    except SmokeError:
        assert "sm1000" in script
    else:
        assert found.outcome is SmokeOutcome.UNKNOWN
        assert "malformed" in found.reason or "the child process" in found.reason


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        (
            "tell('refused', reason='cuda was asked for, and vLLM finds only cpu here')",
            "No smoke load: cuda was asked for, and vLLM finds only cpu here.",
        ),
        ("sys.exit(1)", "ended with exit code 1 before it was ready"),
    ],
)
def test_nothing_can_be_loaded(
    says: str, sentence: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without vLLM or the device there is one sentence and exit code 3."""
    python = vllm_python(tmp_path, HEAD + says)
    assert main(["smoke", model, "--vllm-python", python]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line
    assert line.isprintable()


def test_models_without_weights(tmp_path: Path) -> None:
    """An archive, an LFS pointer, a folder without weights and none at all are unverified."""
    files = {"model.safetensors": {"a.weight": "F16[2,4]"}}
    folder = write_checkpoint(tmp_path / "model", LLAMA, files)
    archive = tmp_path / "model.json.gz"
    write_archive(read_source(str(folder)), archive)
    empty = write_checkpoint(tmp_path / "empty", LLAMA, {})
    pointer = write_checkpoint(tmp_path / "pointer", LLAMA, {})
    (pointer / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 99\n"
    )
    sources = [str(p) for p in (archive, empty, pointer, tmp_path / "nothing")]
    run = smoke_load(sources, settings(tmp_path, "sys.exit(9)"))
    assert {r.outcome for r in run.results} == {SmokeOutcome.UNKNOWN}
    reasons = [r.reason for r in run.results]
    assert "header archive has no weights" in reasons[0]
    assert "no safetensors files" in reasons[1]
    assert "there is no checkout with a remote around it" in reasons[2]
    assert "There is no" in reasons[3]
    # Nobody was asked, so no release and no device is named.
    assert tier_result(run.results[1]).summary.startswith(
        "What vLLM does could not be told: it has"
    )


def test_child_gets_no_secrets(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens stay with the parent; the choice of devices is handed on."""
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    seen = tmp_path / "environ.json"
    load(model, tmp_path, f"json.dump(dict(os.environ), open({str(seen)!r}, 'w')); up(); spoke()")
    environ = json.loads(seen.read_text())
    assert "secret" not in environ.values()
    assert (environ["CUDA_VISIBLE_DEVICES"], environ["HF_HUB_OFFLINE"]) == ("1", "1")


def test_nothing_is_left_behind(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scratch folder is gone, and so is what the child left in its temporary folder."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    load(model, tmp_path, "open(os.environ['TMPDIR'] + '/x', 'w'); up(); sys.exit(1)")
    assert list(scratch.iterdir()) == []


def test_command_line(tmp_path: Path) -> None:
    """`quantgate smoke` joins both tiers into one report that can be read back."""
    file = tmp_path / "report.json"
    python = vllm_python(tmp_path, HEAD + "up('sm90'); spoke(ids=range(20))")
    arguments = ["--vllm-python", python, "--json", str(file), "--max-perplexity", "5"]
    assert main(["smoke", str(EXAMPLES / "good"), *arguments]) == 0
    (read,) = load_report(file.read_text()).models
    assert [t.tier for t in read.tiers] == ["headers", "smoke"]
    facts = read.tiers[1].facts
    assert facts["target"] == "vllm=0.32.0,gpu=sm90,tp=1"
    assert facts["layers"] == ["a.*.b × 2: M, S, K"]


def test_headers_that_say_otherwise(tmp_path: Path) -> None:
    """A model that works although the rules found errors is a defect of one of the tiers."""
    file = tmp_path / "report.json"
    python = vllm_python(tmp_path, HEAD + "up(); spoke()")
    arguments = ["--vllm-python", python, "--json", str(file)]
    assert main(["smoke", str(EXAMPLES / "broken"), *arguments]) == 1
    (read,) = load_report(file.read_text()).models
    assert "one of the two is wrong" in read.tiers[1].summary


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["m", "--device", "tpu"],
        ["m", "--dtype", "int4"],
        ["m", "--prompts", "/nowhere/prompts.txt"],
        ["m", "--json", "-", "--markdown", "-"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 for what cannot be meant."""
    assert main(["smoke", *arguments]) == 2
    assert "Error" in capsys.readouterr().err


def test_prompts() -> None:
    """One a line, within bounds; the bundled ones are in order."""
    assert prompts_in("a\n\n  b \n") == ("a", "b")
    assert len(prompts_in(bundled("prompts.txt"))) == 4
    with pytest.raises(ValueError, match="these are 65"):
        prompts_in("x\n" * 65)
    with pytest.raises(ValueError, match="these are 0"):
        prompts_in("\n")


def test_cancelled_job_leaves_nothing(model: str, tmp_path: Path) -> None:
    """A terminated run takes its child and its scratch folder with it."""
    scratch, pid = tmp_path / "scratch", tmp_path / "pid"
    scratch.mkdir()
    python = vllm_python(
        tmp_path,
        HEAD + f"up(); open({str(pid)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(1000)",
    )
    run = subprocess.Popen(
        [sys.executable, "-m", "quantgate.cli", "smoke", model, "--vllm-python", python],
        env={**os.environ, "TMPDIR": str(scratch)},
        cwd=EXAMPLES.parent,
    )
    try:
        until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        run.terminate()
        assert run.wait(60) == 130
    finally:
        run.kill()
    assert list(scratch.iterdir()) == []
    child = Path("/proc", pid.read_text().strip(), "stat")
    until(lambda: not child.exists())


def until(done: Callable[[], bool]) -> None:
    """Wait for something to happen; it fails by never happening."""
    for _ in range(600):
        if done():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")
