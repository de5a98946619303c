"""The generated documentation is fresh."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_generated_documentation_is_fresh() -> None:
    """`make docs` would change nothing: rule pages, README, example report."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.docs", "--check"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.stderr == ""
    assert done.returncode == 0
