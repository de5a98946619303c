"""The image itself: what it runs, what it does not, and how large it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from quantgate import __version__
from tests.e2e.conftest import run

if TYPE_CHECKING:
    from tests.e2e.conftest import Container


def test_arguments_run_the_command_line(container: Container):
    """`docker run … check` is `quantgate check`, exit codes included."""
    assert container("--version").stdout.strip().endswith(__version__)
    good, broken = container("check", "models/good"), container("check", "models/broken")
    assert (good.returncode, broken.returncode) == (0, 1)
    assert "PASS models/good" in good.stdout
    assert "QG401" in broken.stdout


def test_nothing_of_the_checkout_is_imported(container: Container, checkout):
    """Neither a module lying in the working folder nor PYTHON* variables are obeyed."""
    for name in ("json.py", "click.py", "sitecustomize.py"):
        (checkout / name).write_text("raise SystemExit(42)")
    try:
        done = container("check", "models/good", PYTHONPATH="/github/workspace", PYTHONHOME="/x")
    finally:
        for name in ("json.py", "click.py", "sitecustomize.py"):
            (checkout / name).unlink()
    assert done.returncode == 0, done.stdout


def test_a_check_writes_nothing_into_the_checkout(container: Container, checkout):
    """What root writes, a self-hosted runner cannot clean up."""
    container("check", "models/good")
    assert run("git", "status", "--porcelain", "--ignored", cwd=checkout).stdout == ""


def test_the_image_is_small(image: str, engine: dict[str, str]):
    """Quantgate and its dependencies add less than 75 MB to the base."""
    sizes = [
        json.loads(run("docker", "image", "inspect", name, env=engine).stdout)[0]["Size"]
        for name in (image, "python:3.13-slim")
    ]
    assert sizes[0] - sizes[1] < 75e6


def test_the_image_holds_no_git_and_no_user(image: str, engine: dict[str, str]):
    """GitHub asks for root; a git in there would only be a way to be attacked."""
    config = json.loads(run("docker", "image", "inspect", image, env=engine).stdout)[0]["Config"]
    assert config["User"] == ""
    found = run(
        *("docker", "run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", image),
        *("-c", "command -v git || echo none"),
        env=engine,
    )
    assert found.stdout.strip() == "none"
