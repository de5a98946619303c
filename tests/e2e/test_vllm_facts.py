"""The shipped facts are what the source of vLLM gives, and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from quantgate.targets import NEWEST

ROOT = Path(__file__).parents[2]


def test_a_release_extracted_again_gives_the_same_files() -> None:
    """The newest release, fetched by pip and extracted again, equals every shipped byte."""
    command = [sys.executable, "-m", "tools.vllm_facts", NEWEST, "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"vLLM {NEWEST}: done" in done.stdout
