"""Gets the source distribution of a vLLM release, and unpacks its Python files only.

pip fetches it, so that its indexes, proxies and hashes are the user's own. pip asks a build
backend for the metadata of a source distribution; vLLM's would need torch and a compiler, so
pip is shown a stand-in that hands back the metadata the distribution already carries. No code
of vLLM runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

_BACKEND: Final = """
import pathlib


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    text = pathlib.Path("PKG-INFO").read_text(encoding="utf-8")
    head = dict(line.split(": ", 1) for line in text.splitlines()[:3] if ": " in line)
    folder = pathlib.Path(metadata_directory, f"{head['Name']}-{head['Version']}.dist-info")
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(text, encoding="utf-8")
    return folder.name


def build_wheel(*args, **kwargs):
    raise RuntimeError("only the metadata was wanted")
"""


def fetch(release: str, folder: Path) -> Path:
    """Download and unpack a release; returns the folder that holds the package `vllm`.

    Raises:
        RuntimeError: pip cannot get it; the message is pip's own.
    """
    with tempfile.TemporaryDirectory() as scratch:
        backend = Path(scratch, "backend", "setuptools")
        backend.mkdir(parents=True)
        (backend / "__init__.py").touch()
        (backend / "build_meta.py").write_text(_BACKEND, encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", "vllm", "--no-build-isolation", "--dest", scratch]
        done = subprocess.run(
            [*command, f"vllm=={release}"],
            env={**os.environ, "PYTHONPATH": str(backend.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        archives = list(Path(scratch).glob("vllm-*.tar.gz"))
        if done.returncode or len(archives) != 1:
            raise RuntimeError(f"pip could not download vllm {release}: {done.stderr.strip()}")
        return _unpack(archives[0], folder)


def _unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        wanted = [m for m in tar.getmembers() if m.isfile() and _is_source(m.name)]
        tar.extractall(folder, members=wanted, filter="data")
    return folder / wanted[0].name.split("/")[0]


def _is_source(name: str) -> bool:
    parts = name.split("/")
    return len(parts) > 2 and parts[1] == "vllm" and name.endswith(".py")
