"""The action as GitHub runs it: what it prints and leaves behind, and how it ends."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from huggingface_hub.utils import close_session

import entrypoint
from quantgate.findings import Severity
from quantgate.github.job import Job
from quantgate.github.look import Look
from quantgate.github.publish import publish
from quantgate.report.text import to_text
from tests.support import report_samples
from tests.support.build import healthy, write_checkpoint
from tests.support.hub_models import good_model
from tests.support.lfs_server import REPOSITORY, FakeLfs


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A step in an empty checkout, started without arguments."""
    workspace = tmp_path / "checkout"
    workspace.mkdir()
    environ = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(workspace),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    for name in ("RUNNER_DEBUG", "RUNNER_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["entrypoint.py"])
    monkeypatch.chdir(tmp_path)
    return Job.from_environment(environ)


def outputs(job: Job) -> dict[str, str]:
    """What the step handed on, every value in one line."""
    assert job.outputs
    lines = job.outputs.read_text().splitlines()
    return {
        head.partition("<<")[0]: value for head, value in zip(lines[::3], lines[1::3], strict=True)
    }


def put_model(folder: Path) -> None:
    """A small model that vLLM loads."""
    config, tensors = healthy("gptq")
    write_checkpoint(folder, config, {"model.safetensors": tensors})


def ended() -> int:
    """Run the action; its exit code."""
    with pytest.raises(SystemExit) as caught:
        entrypoint.main()
    return caught.value.code


def test_a_good_checkout_passes(job: Job, capsys: pytest.CaptureFixture[str]):
    """Without any input the model is found, checked, and the job goes on."""
    put_model(job.workspace / "models/a")
    assert ended() == 0
    assert outputs(job) == {
        "verdict": "pass",
        "errors": "0",
        "warnings": "0",
        "models-checked": "1",
        "report-path": f"{job.temp}/quantgate/report.md",
        "json-path": f"{job.temp}/quantgate/report.json",
        "sarif-path": f"{job.temp}/quantgate/report.sarif",
    }
    assert "PASS models/a" in capsys.readouterr().out


def test_a_model_that_is_not_there_stops_the_gate(job: Job, monkeypatch: pytest.MonkeyPatch):
    """Named, but unreadable: no pass and no finding."""
    monkeypatch.setenv("INPUT_MODELS", "models/missing")
    assert ended() == 3
    assert outputs(job)["verdict"] == "unverified"


def test_an_empty_checkout_stops_the_gate(job: Job, capsys: pytest.CaptureFixture[str]):
    """Nothing was found, so nothing was verified."""
    assert ended() == 3
    assert outputs(job) == {"verdict": "error"}
    assert capsys.readouterr().out.startswith("::error title=quantgate::no model found:")


def test_bad_inputs_are_told_one_by_one(
    job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Each gets its own annotation, the path of the report included."""
    monkeypatch.setenv("INPUT_FAIL-ON", "maybe")
    monkeypatch.setenv("INPUT_TARGETS", "gpu=?")
    assert ended() == 2
    assert outputs(job) == {"verdict": "error"}
    assert capsys.readouterr().out.count("::error title=quantgate::input ") == 2


def test_a_report_path_out_of_the_checkout_is_a_bad_input(
    job: Job, monkeypatch: pytest.MonkeyPatch
):
    """It is refused before anything is read."""
    monkeypatch.setenv("INPUT_REPORT-PATH", "../elsewhere")
    assert ended() == 2
    assert outputs(job) == {"verdict": "error"}


@pytest.mark.parametrize("debug", ["0", "1"])
def test_a_crash_is_one_sentence(
    job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], debug: str
):
    """Exit code 4, the kind of error, and the traceback only with debug logging."""
    put_model(job.workspace / "m")

    def crash(*_: object, **__: object) -> None:
        raise LookupError("a\n::error::b")

    monkeypatch.setattr(entrypoint, "check_models", crash)
    monkeypatch.setenv("RUNNER_DEBUG", debug)
    assert ended() == 4
    assert outputs(job) == {"verdict": "error"}
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == (
        "::error title=quantgate::quantgate failed, please report it: LookupError: a ::error::b"
    )
    assert ("Traceback" in printed) == (debug == "1")
    assert printed.startswith("::stop-commands::") == (debug == "1")


def test_the_report_is_left_in_every_place(job: Job, capsys: pytest.CaptureFixture[str]):
    """Log, annotations, summary, files and outputs all come from one report."""
    report = report_samples.several_findings()
    folder = job.temp / "quantgate"
    publish(report, job, folder, Look())
    printed = capsys.readouterr().out
    assert to_text(report) in printed
    assert "\n::error title=" in printed
    assert job.summary
    assert job.summary.read_text() == (folder / "report.md").read_text()
    assert json.loads((folder / "report.json").read_text())["models"][0]["verdict"] == "fail"
    assert outputs(job)["errors"] == str(report.count(Severity.ERROR))


def test_an_old_report_is_replaced_and_a_link_is_not_written_through(job: Job, tmp_path: Path):
    """A pull request cannot choose where the report goes."""
    target = tmp_path / "precious"
    target.write_text("kept")
    folder = job.workspace / "out"
    folder.mkdir()
    (folder / "report.md").symlink_to(target)
    (folder / "report.json").write_text("old")
    publish(report_samples.passing(), job, folder, Look())
    assert target.read_text() == "kept"
    assert not (folder / "report.md").is_symlink()
    assert json.loads((folder / "report.json").read_text())["models"]


def test_what_cannot_be_written_is_a_warning(job: Job, capsys: pytest.CaptureFixture[str]):
    """The rest is published nevertheless, and nothing raises."""
    job.temp.write_text("a file where the folder should be")
    publish(report_samples.passing(), job, job.temp / "quantgate", Look())
    printed = capsys.readouterr().out
    assert "::warning title=quantgate::could not write the report files:" in printed
    assert outputs(job)["verdict"] == "pass"


def test_the_token_of_the_hub_is_masked_and_handed_on(
    job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The client of the Hub finds the token, and the log does not show it."""
    monkeypatch.setenv("HF_TOKEN", "another")
    monkeypatch.setenv("INPUT_HF-TOKEN", "hf_secret")
    put_model(job.workspace / "models/a")
    assert ended() == 0
    assert os.environ["HF_TOKEN"] == "hf_secret"
    out = capsys.readouterr().out
    assert out.count("hf_secret") == out.count("::add-mask::hf_secret") == 1


def test_pointers_in_the_checkout_are_looked_up(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The job's token reads headers from the job's LFS server, unless the input says never."""
    lfs = FakeLfs()
    lfs.wants_token = "Basic " + base64.b64encode(b"x-access-token:secret").decode()
    variables = {
        "GITHUB_SERVER_URL": lfs.address,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": "",
        "INPUT_GITHUB-TOKEN": "secret",
        "QUANTGATE_CACHE": "off",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with lfs.running():
        lfs.checkout(job.workspace, good_model())
        assert ended() == 0
        shutil.rmtree(job.workspace / ".git")
        assert ended() == 0
        assert len(lfs.batches) == 2
        monkeypatch.setenv("INPUT_LFS", "never")
        assert ended() == 3
        monkeypatch.setenv("INPUT_LFS", "perhaps")
        assert ended() == 2
        assert len(lfs.batches) == 2
        close_session()


@pytest.mark.parametrize("source", ["http://127.0.0.1:9/m", "s3://bucket/m", "memory://m"])
def test_the_action_reads_no_address(
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
):
    """An address among the models is no model, wherever the line comes from."""
    (job.workspace / "models.yaml").write_text(f"- {source}\n")
    monkeypatch.setenv("INPUT_MANIFEST", "models.yaml")
    assert ended() == 3
    out = capsys.readouterr().out
    assert "could not be fetched" not in out
    assert source in out


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_report_that_was_brought_along_does_not_stay(
    job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
):
    """A step that uploads what lies there, however this one ended, finds ours or none."""
    place = job.workspace / "out/report.json"
    place.parent.mkdir()
    precious = tmp_path / "precious.json"
    precious.write_text("{}")
    if kind == "file":
        place.write_text("{}")
    elif kind == "link":
        place.symlink_to(precious)
    else:
        place.mkdir()
        (place / "report.json").write_text("{}")
    monkeypatch.setenv("INPUT_REPORT-PATH", "out")
    assert ended() == 3  # there is no model
    assert not place.exists()
    assert precious.exists()


def test_a_refusal_shows_what_it_quotes(
    job: Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A config file may hold what moves the cursor."""
    put_model(job.workspace / "m")
    (job.workspace / ".github").mkdir()
    (job.workspace / ".github/quantgate.yml").write_text('rules: {"QG401\\e[2J": error}')
    assert ended() == 2
    printed = capsys.readouterr().out
    assert "no such rule" in printed
    assert "\x1b" not in printed
