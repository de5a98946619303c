"""What runs in a child beside vLLM: which Python and which modules it may count on."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quantgate.vllm.children.launch import ENTRY
from quantgate.vllm.children.process import resident

VLLM = Path(__file__).parents[2] / "quantgate" / "vllm"
SHARED = sorted(VLLM.glob("children/inside/*.py"))
MODULES = sorted(f for d in ("inside", "child") for f in VLLM.rglob(f"{d}/*.py"))
ALLOWED = {"cloudpickle", "torch", "vllm", "safetensors", "transformers", *sys.stdlib_module_names}
INSIDE = "quantgate.vllm.children.inside."


def imported(tree: ast.AST) -> set[str]:
    """First parts of the names of what is imported; relative and shared imports left out."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").removeprefix(INSIDE).split(".")[0])
    return found - {p.stem for p in SHARED}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(VLLM)))
def test_child_runs_without_quantgate(path: Path) -> None:
    """Every module is Python 3.10 and imports only what is there beside vLLM."""
    tree = ast.parse(path.read_text(), feature_version=(3, 10))
    assert imported(tree) <= ALLOWED


def test_entry_runs_no_init_of_ours(tmp_path: Path) -> None:
    """A child refuses on an empty Python, without any of quantgate's dependencies, and says why."""
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"models": []}))
    reading, writing = os.pipe()
    module = "quantgate.vllm.dry_load.child.serve"
    # -S: no site-packages at all.
    done = subprocess.run(
        [sys.executable, "-S", "-B", ENTRY, module, job, str(writing)],
        pass_fds=(writing,),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    assert done.returncode == 0, done.stderr
    assert "vLLM is not installed in" in json.loads(said)["reason"]


HOLD = """
import mmap, sys
held = bytearray(b"x") * 100_000_000
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sum(mapped[::4096])
print("ready", flush=True)
sys.stdin.read()
"""


def test_mapped_files_are_no_memory(tmp_path: Path) -> None:
    """Weight files that a process maps do not count, what it has made for itself does."""
    weights = tmp_path / "weights"
    weights.write_bytes(bytes(200_000_000))
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(weights)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        held = resident(process.pid)
        process.communicate()
    assert 100_000_000 < held < 200_000_000
    assert resident(process.pid) == 0
