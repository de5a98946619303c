"""The parent's side of the dry load, with children that misbehave. No vLLM is needed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from quantgate.checkpoint.archive import write_archive
from quantgate.checkpoint.sources import read_source
from quantgate.vllm.dry_load import DryLoadError, DryOutcome, Limits, dry_load
from tests.support.build import LLAMA, write_checkpoint
from tests.support.fake_child import vllm_python

QUICK = Limits(seconds=20, memory=1 << 30)


@pytest.fixture
def models(tmp_path: Path) -> list[str]:
    """Three small models."""
    made = (
        write_checkpoint(tmp_path / n, LLAMA, {"model.safetensors": {"a.weight": "F16[2,4]"}})
        for n in ("one", "two", "three")
    )
    return list(map(str, made))


def outcomes(models: list[str], python: str, limits: Limits = QUICK) -> list[tuple[str, str]]:
    """Outcome and reason of each."""
    run = dry_load(models, vllm_python=python, limits=limits)
    return [(r.outcome.value, r.reason) for r in run.results]


def test_every_model_gets_its_answer_in_order(models: list[str], tmp_path: Path) -> None:
    """The answers come in the order of the sources, with the release that the child found."""
    python = vllm_python(
        tmp_path,
        """
        ready("0.27.1")
        for model in job["models"]:
            done(model["index"], architecture=os.path.basename(model["folder"]), method=job["gpu"])
        tell("end")
        """,
    )
    run = dry_load(models, gpu="sm89", tensor_parallel=2, vllm_python=python, limits=QUICK)
    assert [r.source for r in run.results] == models
    assert [r.architecture for r in run.results] == ["0", "1", "2"]
    assert {str(r.target) for r in run.results} == {"vllm=0.27.1,gpu=sm89,tp=2"}
    assert {r.method for r in run.results} == {"sm89"}


def test_silent_faults_are_read(models: list[str], tmp_path: Path) -> None:
    """Kinds, counts and names of silent faults arrive as data."""
    python = vllm_python(
        tmp_path,
        """
        ready()
        done(0, outcome="silent", silent={"partial": {"count": 7, "names": ["a", "b"]}})
        tell("end")
        """,
    )
    (answer,) = dry_load(models[:1], vllm_python=python, limits=QUICK).results
    assert answer.outcome is DryOutcome.SILENT
    assert [(s.kind, s.count, s.names) for s in answer.silent] == [("partial", 7, ("a", "b"))]


def test_hanging_child_is_ended(models: list[str], tmp_path: Path) -> None:
    """A child that hangs is killed with what it started; a new one loads the other models."""
    python = vllm_python(
        tmp_path,
        f"""
        ready()
        for model in job["models"]:
            if model["index"] == 1:
                tell("start", model=1)
                sleeper = subprocess.Popen(["sleep", "1000"])
                open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{sleeper.pid}}")
                time.sleep(1000)
            done(model["index"])
        tell("end")
        """,
    )
    found = outcomes(models, python, Limits(seconds=1, memory=1 << 30))
    assert found == [
        ("loads", ""),
        ("unknown", "the child process took longer than 1 seconds"),
        ("loads", ""),
    ]
    assert not any(map(alive, (tmp_path / "pids").read_text().split()))


def alive(pid: str) -> bool:
    """Whether a process runs; one that was killed and not yet waited for does not."""
    for _ in range(50):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        if stat.rpartition(")")[2].split()[0] == "Z":
            return False
        time.sleep(0.1)
    return True


def test_hungry_child_is_ended(models: list[str], tmp_path: Path) -> None:
    """A child that eats memory is killed, and its limit is in the reason."""
    python = vllm_python(
        tmp_path,
        """
        ready()
        tell("start", model=0)
        eaten = []
        while True:
            eaten.append(b"x" * (16 << 20))
            time.sleep(0.01)
        """,
    )
    found = outcomes(models[:1], python, Limits(seconds=60, memory=256 << 20))
    assert found == [("unknown", "the child process took more than 0.25 GB of memory")]


def test_killed_child_loses_only_its_model(models: list[str], tmp_path: Path) -> None:
    """A child that a signal ends takes one model with it, and its last log lines are kept."""
    python = vllm_python(
        tmp_path,
        """
        ready()
        for model in job["models"]:
            if model["index"] == 0:
                tell("start", model=0)
                print("\\x1b[31m::error::it ends here", flush=True)
                os.kill(os.getpid(), signal.SIGSEGV)
            done(model["index"])
        tell("end")
        """,
    )
    results = dry_load(models, vllm_python=python, limits=QUICK).results
    assert [r.outcome.value for r in results] == ["unknown", "loads", "loads"]
    assert results[0].reason == "the child process was ended by SIGSEGV"
    assert results[0].log == ("\x1b[31m::error::it ends here",)
    assert results[1].log == ()


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("stream.write('no json\\n')", "told something that is not JSON"),
        ("stream.write('[' * 100000 + '\\n')", "told something that is not JSON"),
        ("tell('done', model=0, result={})", "told something that is no answer"),
        ("tell('start', model=9)", "told something that is no answer"),
        ("tell('start', model=0); tell('end')", "told something that is no answer"),
        ("tell('start', model=0)", "ended before it was done"),
        ("tell('start', model=0); stream.flush(); os._exit(7)", "ended with exit code 7"),
        ("stream.write('x' * 5_000_000)", "told too long a line"),
    ],
)
def test_nonsense_is_no_answer(says: str, reason: str, models: list[str], tmp_path: Path) -> None:
    """Whatever a child says that is no answer makes the outcome unknown."""
    python = vllm_python(tmp_path, f"ready()\n{says}")
    assert outcomes(models[:1], python) == [("unknown", f"the child process {reason}")]


@pytest.mark.parametrize(
    "result",
    [{"outcome": "maybe"}, {"rank": "x"}, {"silent": 3}, {"reason": 5}, {"post_not_run": "abc"}],
)
def test_malformed_answer_is_none(result: dict, models: list[str], tmp_path: Path) -> None:
    """An answer with a wrong value is not believed in part."""
    python = vllm_python(tmp_path, f"ready()\ndone(0, **{result!r})\ntell('end')")
    ((outcome, reason),) = outcomes(models[:1], python)
    assert outcome == "unknown"
    assert reason.startswith("the child's answer is malformed")


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ("tell('refused', reason='vLLM 0.1 is too old')", "No dry load: vLLM 0.1 is too old."),
        (
            "print('Traceback'); print('OSError: no\\x1bdisk'); sys.exit(1)",
            r"it said: OSError: no\\x1b",
        ),
        ("pass", "the child process ended before it was done before it was ready"),
        ("ready('latest')", "told something that is no answer before it was ready"),
    ],
)
def test_no_dry_load_without_vllm(
    says: str, sentence: str, models: list[str], tmp_path: Path
) -> None:
    """A child that cannot start is one sentence for the user, on one line and escaped."""
    with pytest.raises(DryLoadError, match=sentence) as caught:
        dry_load(models, vllm_python=vllm_python(tmp_path, says), limits=QUICK)
    assert str(caught.value).isprintable()


def test_python_that_is_not_there(models: list[str]) -> None:
    """A Python that does not exist is named."""
    with pytest.raises(DryLoadError, match="'/nowhere/python' cannot be started"):
        dry_load(models, vllm_python="/nowhere/python")


def test_child_gets_no_secrets(
    models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens of the job stay with the parent, and the child may not reach the Hub."""
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("HF_TOKEN", "secret")
    seen = tmp_path / "environ.json"
    script = f"""
    json.dump(dict(os.environ), open({str(seen)!r}, "w"))
    ready(); done(0); tell("end")
    """
    dry_load(models[:1], vllm_python=vllm_python(tmp_path, script), limits=QUICK)
    environ = json.loads(seen.read_text())
    assert not [k for k, v in environ.items() if v == "secret"]
    assert environ["HF_HUB_OFFLINE"] == "1"


def test_folder_and_archive_give_the_child_the_same(tmp_path: Path) -> None:
    """The child gets config and headers, and weight files as long as the real ones, from either."""
    files = {"model.safetensors": {"a.weight": "F16[1000,1000]"}}
    folder = write_checkpoint(tmp_path / "model", LLAMA, files)
    archive = tmp_path / "model.json.gz"
    write_archive(read_source(str(folder)), archive)
    script = """
    ready()
    for model in job["models"]:
        file = os.path.join(model["folder"], "model.safetensors")
        held = open(file, "rb").read()
        config = open(os.path.join(model["folder"], "config.json")).read()
        done(model["index"], message=str((len(held), hash(held), hash(config))))
    tell("end")
    """
    python = vllm_python(tmp_path, script)
    one, two = dry_load([str(folder), str(archive)], vllm_python=python, limits=QUICK).results
    assert one.message == two.message
    assert f"({(folder / 'model.safetensors').stat().st_size}, " in one.message


def test_child_that_leaves_all_models_out(models: list[str], tmp_path: Path) -> None:
    """A child that says it is done and told of no model is not asked for ever."""
    python = vllm_python(tmp_path, "ready(); tell('end')")
    reason = "the child process ended before it was done"
    assert outcomes(models[:2], python) == [("unknown", reason)] * 2


def test_what_cannot_be_rebuilt_is_unknown(tmp_path: Path) -> None:
    """Without config, or without the model, there is nothing to build."""
    weights = {"model.safetensors": {"a.weight": "F16[2,4]"}}
    sources = [str(write_checkpoint(tmp_path / "no-config", None, weights)), str(tmp_path / "no")]
    found = outcomes(sources, vllm_python(tmp_path, "ready(); tell('end')"))
    assert [o for o, _ in found] == ["unknown"] * 2
    assert "no config.json" in found[0][1]
    assert "There is no" in found[1][1]


def test_without_weights_the_configs_are_judged(tmp_path: Path) -> None:
    """Without weights, or with pointers to them, the child gets the configs and is told why."""
    no_weights = write_checkpoint(tmp_path / "no-weights", LLAMA, {})
    pointer = write_checkpoint(tmp_path / "pointer", LLAMA, {})
    (pointer / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 99\n"
    )
    script = """
    ready()
    for model in job["models"]:
        held = sorted(os.listdir(model["folder"]))
        done(model["index"], outcome="fails", phase="config", message=f"{held} {model['unread']}")
    tell("end")
    """
    python = vllm_python(tmp_path, script)
    one, two = dry_load([str(no_weights), str(pointer)], vllm_python=python, limits=QUICK).results
    assert one.message.startswith("['config.json'] it has no safetensors files")
    assert two.message.endswith("is a Git LFS pointer, its file was not fetched")


def test_nothing_is_left_behind(
    models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that models are rebuilt in is gone afterwards."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    dry_load(models, vllm_python=vllm_python(tmp_path, "ready(); sys.exit(1)"), limits=QUICK)
    assert list((tmp_path / "scratch").iterdir()) == []
