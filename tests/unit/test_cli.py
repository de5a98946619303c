"""The command line as a user drives it."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from quantgate.cli import app, main
from tests.support.build import healthy, write_checkpoint


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with a good, a broken and an unreadable model."""
    config, tensors = healthy("gptq")
    write_checkpoint(tmp_path / "good", config, {"model.safetensors": tensors})
    config["quantization_config"]["bits"] = 8
    write_checkpoint(tmp_path / "broken", config, {"model.safetensors": tensors})
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_good_model_passes(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 and a verdict in the first word."""
    assert main(["check", str(models / "good")]) == 0
    assert capsys.readouterr().out.startswith("PASS ")


def test_broken_model_fails(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, the rule and the fix are named."""
    assert main(["check", str(models / "broken")]) == 1
    out = capsys.readouterr().out
    assert "error[QG401] bits-mismatch" in out
    assert "Declare 4 bits" in out


def test_fail_on_never_passes(models: Path) -> None:
    """Findings are shown, the exit code is 0."""
    assert main(["check", str(models / "broken"), "--fail-on", "never"]) == 0


def test_unreadable_model_does_not_stop_the_others(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All three are judged; what could not be read blocks even with --fail-on never."""
    names = ["empty", "missing", "good"]
    code = main(["check", *(str(models / n) for n in names), "--json", "-", "--fail-on", "never"])

    report = json.loads(capsys.readouterr().out)

    assert code == 3
    assert [m["verdict"] for m in report["models"]] == ["unverified", "unverified", "pass"]


def test_json_on_stdout_silences_the_rest(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is one JSON document."""
    main(["check", str(models / "broken"), "--json", "-"])

    assert json.loads(capsys.readouterr().out)["models"][0]["verdict"] == "fail"


def test_markdown_file(models: Path, tmp_path: Path) -> None:
    """--markdown writes the report beside the text on the terminal."""
    main(["check", str(models / "broken"), "--markdown", str(tmp_path / "r.md")])

    assert (tmp_path / "r.md").read_text().startswith("<!-- quantgate:")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check"], "Missing argument"),
        (["check", "x", "--target", "cuda=12"], "none of vllm, gpu, tp"),
        (["check", "x", "--target", "gpu=h100"], "sm75"),
        (["check", "x", "--target", "tp=0"], "from 1 to 1024"),
        (["check", "x", "--select", "QG999"], "quantgate rules"),
        (["check", "x", "--json", "-", "--markdown", "-"], "only one report"),
        (["explain", "nonsense"], "no rule"),
        (["pack", "x", "-o", "y.zip"], ".json.gz"),
        (["check", "/", "--json", "/no/such/folder/x.json"], "cannot write"),
    ],
)
def test_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and one sentence that says what is allowed."""
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_target_repeats(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every target is in the report; gpu=cpu and no gpu are valid."""
    main(f"check {models / 'good'} --json - --target vllm=0.32.0,gpu=cpu --target tp=2".split())

    targets = json.loads(capsys.readouterr().out)["targets"]

    assert [t["gpu"] for t in targets] == ["cpu", ""]
    assert [t["tensor_parallel"] for t in targets] == [1, 2]


def test_pack_and_check_again(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A packed model gives the same findings as the folder."""
    archive = tmp_path / "x.json.gz"
    assert main(["pack", str(models / "broken"), "-o", str(archive)]) == 0
    capsys.readouterr()
    findings = []
    for source in (models / "broken", archive):
        assert main(["check", str(source), "--json", "-"]) == 1
        findings.append(json.loads(capsys.readouterr().out)["models"][0]["findings"])

    assert findings[0] == findings[1]


def test_pack_keeps_paths_private(models: Path, tmp_path: Path) -> None:
    """An archive holds the folder's name, not where it lies."""
    archive = tmp_path / "x.json.gz"
    main(["pack", str(models / "good"), "-o", str(archive)])

    text = gzip.decompress(archive.read_bytes()).decode()

    assert '"source":"good"' in text
    assert str(tmp_path) not in text


def test_pack_unreadable(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written for a source that cannot be read."""
    target = models / "x.json.gz"

    assert main(["pack", str(models / "missing"), "-o", str(target)]) == 3
    assert not target.exists()
    assert capsys.readouterr().err


def test_explain_and_rules() -> None:
    """A rule's page is its docstring; the list has a line per rule."""
    page = CliRunner().invoke(app, ["explain", "bits-mismatch"]).output
    listed = CliRunner().invoke(app, ["rules"]).output

    assert page.startswith("QG401 bits-mismatch (error")
    assert "## Why it matters" in page
    assert "QG401  error    bits-mismatch" in listed


def test_internal_error_is_exit_code_4(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A crash of the gate is told in one sentence and blocks."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("quantgate.runner.check_models", broken)

    assert main(["check", str(models / "good")]) == 4
    assert "internal error" in capsys.readouterr().err


def test_help_imports_nothing_heavy() -> None:
    """`--help` loads neither the rules nor Jinja nor the Hub client."""
    code = (
        "import sys; sys.argv = ['quantgate', '--help']\n"
        "from quantgate.cli import main\nmain(['--help'])\n"
        "heavy = {'jinja2', 'huggingface_hub', 'yaml', 'checks', 'torch', 'safetensors'}\n"
        "sys.exit(len(heavy & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)

    assert done.returncode == 0
