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
from quantgate.vllm.children.process import Child, Limits, Stopped, resident
from quantgate.vllm.children.tracebacks import Tracebacks

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


SHARE = """
import mmap, os, sys
pages = mmap.mmap(-1, 100_000_000)
pages[:] = bytes(100_000_000)
if os.fork() == 0:
    sum(pages[::4096])
    print("ready", flush=True)
sys.stdin.read()
"""


def held_by(script: str, *arguments: str) -> tuple[int, int]:
    """Bytes that a script's processes hold once it says that it is ready, and after its end."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        held = resident(process.pid)
        process.communicate()
    return held, resident(process.pid)


def test_shared_memory_counts_once() -> None:
    """What ranks share with each other is there once, however many have it."""
    assert 100_000_000 < held_by(SHARE)[0] < 200_000_000


def test_child_that_cannot_be_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is stuck in a driver is left behind and told, not waited for without end."""
    killed: list[tuple[int, int]] = []
    kill = os.killpg
    monkeypatch.setattr("os.killpg", lambda *group: killed.append(group))
    monkeypatch.setattr("quantgate.vllm.children.process._DIES_WITHIN", 0.1)
    command = [sys.executable, "-c", "import time; time.sleep(1000)"]
    with Child(command, Limits(seconds=0.1), os.environ, tmp_path) as child:
        with pytest.raises(Stopped, match=r"took longer than .* could not be ended: it may be"):
            list(child.lines())
        assert child.left_behind
    kill(*killed[0])
    monkeypatch.undo()
    child.left_behind = False
    child.kill()
    assert not child.left_behind


HEAD = "(EngineCore_DP0 pid=3) (Worker_TP1 pid=4) ERROR 11-30 14:04:53 [multiproc_executor.py:1] "
MAIN = '  File "/x/vllm/v1/executor/multiproc_executor.py", line 9, in worker_main'


def ends(*lines: str, head: str = HEAD) -> list[list[tuple[str, str, str]]]:
    """Class, message and place of what a log tells."""
    told = Tracebacks()
    for line in lines:
        told.hear(f"{head}{line}\r")
    return [[(r.exception, r.message, r.where) for r in end] for end in told.ends]


START = "Traceback (most recent call last):"


def test_traceback_with_its_cause_and_a_long_message() -> None:
    """Causes come first, and a message goes on until the record or the traceback ends."""
    frame = '  File "/x/vllm/linear.py", line 4, in weight_loader'
    between = "The above exception was the direct cause of the following exception:"
    lines = [START, frame, "KeyError: 'a'", "", between, "", START, MAIN, "    x = y", "    ^^^^^"]
    wrong = ["a.b.LoadError: these:", "  one", "  two"]
    assert ends(*lines, *wrong) == [
        [
            ("KeyError", "'a'", "linear.py:4"),
            ("LoadError", "these:\n  one\n  two", "multiproc_executor.py:9"),
        ]
    ]
    colored = "\x1b[0;36m(Worker pid=4)\x1b[0;0m ERROR 11-30 14:04:53 [multiproc_executor.py:1] "
    assert len(ends(*lines, *wrong, head=colored)[0]) == 2


def test_log_without_end() -> None:
    """However much is logged, what is kept has bounds, and the first that counts is in it."""
    told = Tracebacks()
    for number in range(1000):
        for line in (START, MAIN if number == 500 else "  File", f"E{number}: x", *"y" * 5000):
            told.hear(f"(Worker pid={number}) {line}")
    ((end,),) = told.ends
    assert end.exception == "E500"
    assert len(end.message) <= 2000
    assert len(ends(*(START, MAIN, "E: x") * 100)[0]) == 8
    assert ends("nothing", START, "", "!", MAIN, "E: x") == []
    other = '  File "/x/multiproc_executor.py", line 9, in worker_main'
    assert ends(START, other, "KeyError") == []


def test_mapped_files_are_no_memory(tmp_path: Path) -> None:
    """Weight files that a process maps do not count, what it has made for itself does."""
    weights = tmp_path / "weights"
    weights.write_bytes(bytes(200_000_000))
    held, afterwards = held_by(HOLD, str(weights))
    assert 100_000_000 < held < 200_000_000
    assert afterwards == 0
