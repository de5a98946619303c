"""Run the measurements and print them: `make bench`.

Every figure is the least of several runs in fresh processes: these are lower bounds of what the
work costs on the machine at hand, the fairest number on a noisy one.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS = 5


def measure(arguments: list[str], runs: int = RUNS) -> tuple[float, float]:
    """(least seconds, greatest resident megabytes) of a command in a fresh process."""
    seconds, megabytes = [], 0.0
    for _ in range(runs):
        started = time.perf_counter()
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds.append(time.perf_counter() - started)
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        if code not in {0, 1}:
            raise SystemExit(f"{arguments} ended with {code}")
        megabytes = max(megabytes, usage.ru_maxrss / 1024)
    return min(seconds), megabytes


# The targets of the last row: three releases that name and match differently.
THREE = ["0.33.0", "0.27.1", "0.19.1"]


def main() -> None:
    """Print the table."""
    python = [sys.executable, "-m", "quantgate.cli"]
    rows: list[tuple[str, float, float, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own: a child inherits the greatest memory of its parent on Linux.
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.models", folder],
            check=True,
            capture_output=True,
            text=True,
        )
        counts = {name: int(n) for name, n in map(str.split, done.stdout.splitlines())}

        def check(what: str, name: str, wanted: str = "", releases: Sequence[str] = ()) -> None:
            archive = Path(folder) / name
            size = archive.stat().st_size / 1e6
            targets = [a for r in releases for a in ("--target", f"vllm={r}")]
            rows.append(
                (
                    f"{what}, {counts[name]:,} tensors, archive of {size:.1f} MB",
                    *measure([*python, "check", *targets, str(archive)]),
                    wanted,
                )
            )

        floor = measure([sys.executable, "-c", "pass"])
        rows.append(("python -c pass (the floor)", *floor, ""))
        rows.append(("quantgate --help", *measure([*python, "--help"]), "< 0.3 s"))
        check("Qwen3-30B W4A16", "qwen3.json.gz", "< 1.5 s, < 250 MB")
        for layers in (3, 16, 58):
            check(f"DeepSeek-V3 NVFP4, {layers} MoE layers", f"deepseek-{layers}.json.gz")
        check("the same for 3 targets", "deepseek-58.json.gz", "< 6 s, < 600 MB", THREE)
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{'what':<72}{'seconds':>9}{'x floor':>9}{'MB':>7}  wanted")
    for what, seconds, megabytes, wanted in rows:
        ratio = seconds / rows[0][1]
        print(f"{what:<72}{seconds:>9.2f}{ratio:>9.1f}{megabytes:>7.0f}  {wanted}")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
