"""Pull the headers of models from a Hub with latency, and compare: `make bench-pull`.

Both sides read the same models from the same server in the same run, by turns, each in a fresh
process with empty caches; the figure is the least of several runs. huggingface_hub's side is
`get_safetensors_metadata`, which reads the index and all headers and parses them; quantgate's side
reads the configs as well, and checks what it parses.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import huggingface_hub

from benchmarks.pull_server import DENSE, EXPERTS

RUNS = 3
LATENCIES = (0.0, 0.02, 0.08)
RESULTS = Path(__file__).with_name("pull.txt")

OURS = """
import json, resource, sys, time
from quantgate.checkpoint import hub, raw, ranges
from quantgate.checkpoint.sources import open_checkpoint
stages = {}
def timed(where, name, stage):
    inner = getattr(where, name)
    def outer(*args, **kwargs):
        started = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            stages[stage] = stages.get(stage, 0) + time.perf_counter() - started
    setattr(where, name, outer)
timed(hub._Reader, "_listing", "listing")
timed(hub._Reader, "_remote", "reading the index")
timed(hub._Reader, "_headers", "headers over the wire, parsed as they come")
timed(hub, "read_hub", "all reading")
import quantgate.checkpoint.sources as sources
timed(sources, "assemble", "putting together")
started, cpu = time.perf_counter(), time.process_time()
tensors = len(open_checkpoint(sys.argv[1]).tensors)
seconds = time.perf_counter() - started
stages["index and configs over the wire"] = stages.pop("all reading") - sum(
    v for s, v in stages.items() if s.startswith(("listing", "reading", "headers"))
)
"""
THEIRS = """
import json, resource, sys, time
from huggingface_hub import get_safetensors_metadata
stages = {}
started, cpu = time.perf_counter(), time.process_time()
tensors = len(get_safetensors_metadata(sys.argv[1]).weight_map)
seconds = time.perf_counter() - started
"""
TELL = """
print(json.dumps({"seconds": seconds, "tensors": tensors, "cpu": time.process_time() - cpu,
    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "stages": stages}))
"""


class Server:
    """The Hub in its own process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.pull_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.facts: dict[str, Any] = self._line()

    def ask(self, command: str) -> dict[str, Any]:
        """Send a line, get one back."""
        assert self.process.stdin
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> None:
        """End it."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def pull(code: str, model: str, server: Server) -> dict[str, Any]:
    """One run in a fresh process with empty caches, and what the server saw of it."""
    with tempfile.TemporaryDirectory() as home:
        environment = {
            **{k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")},
            "HF_ENDPOINT": server.facts["hub"],
            "HF_HOME": home,
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "QUANTGATE_CACHE": "off",
        }
        server.ask("counts")
        done = subprocess.run(
            [sys.executable, "-c", code + TELL, model],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        )
    return {**json.loads(done.stdout), **server.ask("counts")}


def floor(server: Server, size: int) -> float:
    """Seconds for so many bytes in one request: nothing that asks a server can be faster."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"{server.facts['storage']}/bench/floor/all.bin")
    request.add_header("range", f"bytes=0-{size - 1}")
    best = float("inf")
    for _ in range(RUNS):
        started = time.perf_counter()
        with opener.open(request) as answer:
            assert len(answer.read()) == size
        best = min(best, time.perf_counter() - started)
    return best


def best_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The fastest run, with the greatest memory of all."""
    best = min(runs, key=lambda r: r["seconds"])
    return {**best, "megabytes": max(r["megabytes"] for r in runs)}


def compare(server: Server, latency: float, model: str, out: list[str]) -> tuple[Any, Any]:
    """Both sides by turns at one latency."""
    server.ask(f"latency {latency}")
    facts = server.facts["models"][model]
    runs: tuple[list[Any], list[Any]] = ([], [])
    for _ in range(RUNS):
        runs[0].append(pull(OURS, model, server))
        runs[1].append(pull(THEIRS, model, server))
    ours, theirs = map(best_of, runs)
    for name, side in (("quantgate", ours), ("huggingface_hub", theirs)):
        assert side["tensors"] == facts["tensors"], (name, side)
        out.append(
            f"{latency * 1000:>5.0f} ms  {name:<16}{side['seconds']:>8.2f} s{side['cpu']:>8.2f} s"
            f"{side['megabytes']:>7.0f} MB{side['weight_gets'] / facts['files']:>10.3f}"
            f"{side['weight_bytes'] / facts['headers']:>9.3f}{side['requests']:>10}"
        )
    lowest = floor(server, facts["headers"])
    ratio = ours["seconds"] / theirs["seconds"]
    out.append(
        f"{'':<10}floor           {lowest:>8.2f} s    quantgate takes {ratio:.2f} of its time"
    )
    return ours, theirs


def profile(ours: dict[str, Any]) -> str:
    """Where the time goes."""
    parts = [f"{name} {seconds:.2f} s" for name, seconds in ours["stages"].items()]
    return "          of it: " + ", ".join(parts)


def main() -> None:
    """Measure, print, and keep what was printed."""
    server = Server()
    out = [
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"huggingface_hub {huggingface_hub.__version__}, least of {RUNS} runs",
    ]
    wanted: list[tuple[str, bool]] = []
    for model in (DENSE, EXPERTS):
        facts = server.facts["models"][model]
        out += [
            "",
            f"{model}: {facts['tensors']:,} tensors in {facts['files']} files, headers of "
            f"{facts['headers'] / 1e6:.2f} MB, index of {facts['index'] / 1e6:.2f} MB",
            f"{'latency':<10}{'':<16}{'wall':>10}{'CPU':>10}{'memory':>10}{'GET/file':>10}"
            f"{'bytes x':>9}{'requests':>10}",
        ]
        for latency in LATENCIES:
            ours, theirs = compare(server, latency, model, out)
            out.append(profile(ours))
            print("\n".join(out[-4:]), flush=True)
            if model == EXPERTS and latency == LATENCIES[-1]:
                files = facts["files"]
                wanted = [
                    ("at most half its wall time", ours["seconds"] <= theirs["seconds"] / 2),
                    ("at most 1.15 x the headers", ours["weight_bytes"] <= 1.15 * facts["headers"]),
                    ("at most 1.05 requests per file", ours["weight_gets"] <= 1.05 * files),
                    ("peak memory below it", ours["megabytes"] < theirs["megabytes"]),
                ]
    server.close()
    out += ["", f"wanted of {EXPERTS} at {LATENCIES[-1] * 1000:.0f} ms:"]
    out += [f"  {'yes' if met else 'NO '}  {what}" for what, met in wanted]
    RESULTS.write_text("\n".join(out) + "\n")
    print("\n".join(out))


if __name__ == "__main__":
    main()
