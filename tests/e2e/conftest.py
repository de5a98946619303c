"""An engine, the image built from the files as they are now, and workflows run by `act`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
IMAGE = "quantgate-e2e"
# What act calls the image that it builds for the action, of which it never cleans up.
ACT_IMAGES = "act-*-dockeraction"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder is an end-to-end test."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("e2e")


def run(
    *command: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stderr: int = subprocess.STDOUT,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; the output holds both streams unless `stderr` says otherwise."""
    return subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="session")
def engine() -> Iterator[dict[str, str]]:
    """The environment in which `docker` answers; skips where no engine can be had."""
    script = HERE / "engine.sh"
    up = run(script, "up", stderr=subprocess.PIPE)
    if up.returncode == 3:
        pytest.skip(up.stderr.strip().splitlines()[-1])
    assert up.returncode == 0, up.stderr
    settings = dict(word.split("=", 1) for word in up.stdout.split()[1:])
    yield os.environ | settings
    if settings:
        run(script, "down")


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git knows or would add: the repository as an action is fetched."""
    copy = tmp_path_factory.mktemp("source")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="session")
def image(engine: dict[str, str], source: Path) -> Iterator[str]:
    """The image's name; removed, with what act built from it, when all is done."""
    built = run("docker", "build", "--network", "host", "-t", IMAGE, source, env=engine)
    assert built.returncode == 0, built.stdout
    # Otherwise act builds the same once more in each of its runs.
    action = (source / "action.yml").read_text()
    assert action.count("image: Dockerfile") == 1
    (source / "action.yml").write_text(
        action.replace("image: Dockerfile", f"image: docker://{IMAGE}")
    )
    yield IMAGE
    listed = run(
        "docker", "images", "-q", "--filter", f"reference={ACT_IMAGES}", env=engine
    ).stdout.split()
    run("docker", "rmi", "-f", IMAGE, *listed, env=engine)


@dataclass(frozen=True)
class Container:
    """The image with a folder mounted as the checkout, started as GitHub starts it."""

    image: str
    checkout: Path
    env: dict[str, str]

    def __call__(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        settings = [word for k, v in variables.items() for word in ("-e", f"{k}={v}")]
        mount = ["-v", f"{self.checkout}:/github/workspace", "--workdir", "/github/workspace"]
        return run(
            *("docker", "run", "--rm", "--network", "none", *mount, *settings, self.image),
            *arguments,
            env=self.env,
        )


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the two example models."""
    folder = tmp_path_factory.mktemp("repository")
    for name in ("good", "broken"):
        shutil.copytree(ROOT / "examples" / name, folder / "models" / name)
    for command in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "Models"),
    ):
        done = run("git", *command, cwd=folder)
        assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture
def container(image: str, checkout: Path, engine: dict[str, str]) -> Container:
    """The image over the checkout."""
    return Container(image, checkout, engine)


@dataclass(frozen=True)
class Workflow:
    """A finished run of act: its exit code and what the jobs printed."""

    code: int
    printed: str

    @property
    def log(self) -> str:
        """All of it, without the names of the jobs before each line."""
        return re.sub(r"(?m)^\[.*?\] +(\| )?", "", self.printed)

    def of(self, job: str) -> Workflow:
        """What one job printed, of several."""
        mine = re.findall(rf"(?m)^\[[^]/]*/{re.escape(job)} *\].*$", self.printed)
        assert mine, self.printed
        return Workflow(self.code, "\n".join(mine) + "\n")

    def line(self, start: str) -> str:
        """The rest of the one line that starts so."""
        found = [x.removeprefix(start) for x in self.log.splitlines() if x.startswith(start)]
        assert len(found) == 1, self.log
        return found[0].strip()


@pytest.fixture
def workflow(image: str, checkout: Path, source: Path, engine: dict[str, str], tmp_path: Path):
    """Run a workflow file as GitHub would, for a pull request unless told otherwise.

    Artifacts are folders, and `/tmp` is what GitHub's temporary folder is: the same for all steps
    of a job, so that jobs have to run one after the other.
    """
    act = shutil.which("act", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if not act:
        pytest.skip("act is not installed: pip install -r tests/e2e/requirements.lock")
    artifacts, temporary = tmp_path / "artifacts", tmp_path / "temporary"

    def start(
        file: Path,
        job: str = "",
        *,
        event: str = "pull_request",
        payload: Mapping[str, object] | None = None,
        folder: Path = checkout,
        api: str = "",
        options: Sequence[str | Path] = (),
    ) -> Workflow:
        for place in (artifacts, temporary):
            place.mkdir(exist_ok=True)
        said = tmp_path / "event.json"
        said.write_text(json.dumps(payload or {}))
        # On the network of this machine, where a GitHub may listen.
        there = ("--network", "host", "--env", f"GITHUB_API_URL={api}") if api else ()
        local = {
            "quantgate/quantgate@v0": source,
            "actions/upload-artifact@v4": HERE / "actions/upload",
            "actions/download-artifact@v5": HERE / "actions/download",
            "actions/setup-python@v6": HERE / "actions/python",
        }
        mounts = f"-v {artifacts}:{artifacts} -v {temporary}:/tmp"
        done = run(
            *(act, event, "-e", said, "-W", file, "-C", folder, *there),
            *(("-j", job) if job else ()),
            *("-s", "GITHUB_TOKEN=0123456789abcdef", "--env", "GITHUB_REPOSITORY=acme/models"),
            *("-P", "ubuntu-latest=python:3.13-slim", "--pull=false", "--action-offline-mode"),
            *(x for name, at in local.items() for x in ("--local-repository", f"{name}={at}")),
            *("--env", f"ARTIFACTS={artifacts}", "--container-options", mounts),
            *("--concurrent-jobs", "1", "--no-cache-server"),
            *("--container-daemon-socket", "-", "--rm"),
            *options,
            env=engine,
        )
        return Workflow(done.returncode, done.stdout)

    return start
