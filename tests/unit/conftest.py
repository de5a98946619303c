"""A Hub and a GitHub on loopback, and the action run against them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session

import entrypoint
from tests.support.build import healthy, write_checkpoint
from tests.support.events import PULL_REQUEST
from tests.support.github_server import REPOSITORY, GitHubServer, PullRequest
from tests.support.hub_models import good_model
from tests.support.hub_server import FakeHub
from tests.support.reading import ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFIG = ".github/quantgate.yml"


@pytest.fixture
def empty_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A Hub without models, which everything in the process takes for the Hub."""
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setenv("QUANTGATE_CACHE", str(tmp_path / "cache"))
    server = FakeHub()
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    with server.running():
        yield server
        close_session()


@pytest.fixture
def hub(empty_hub: FakeHub) -> FakeHub:
    """A Hub with one good model, which everything in the process takes for the Hub."""
    empty_hub.add(ID, good_model(), revisions=("main", "refs/pr/3", "v1.0"))
    return empty_hub


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    """The server; the test fails if a call was not one of GitHub's, or a planned fault not met."""
    with GitHubServer() as server:
        yield server
    assert server.violations == []
    assert server.faults == []


@pytest.fixture
def pull(github: GitHubServer) -> PullRequest:
    """Pull request 3 changes the model `a`."""
    github.pulls[3] = PullRequest(files={"a/config.json": ("modified", "")})
    return github.pulls[3]


def bodies(github: GitHubServer) -> list[str]:
    """The texts of all comments, oldest first."""
    return [c["body"] for c in github.comments.get(3, [])]


@pytest.fixture
def changed(github: GitHubServer) -> Callable[..., None]:
    """Say which files pull request 3 changes."""

    def set_files(*paths: str, **values: int) -> None:
        github.pulls[3] = PullRequest(files=dict.fromkeys(paths, ("modified", "")), **values)

    return set_files


@dataclass
class Action:
    """The action in a checkout, started for an event."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    github: GitHubServer
    log: str = ""
    _runs: list[Path] = field(default_factory=list)

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    def put(self, path: str, *, broken: bool = False) -> None:
        """A model folder that loads, or one that declares the wrong number of bits."""
        config, tensors = healthy("gptq")
        if broken:
            config["quantization_config"]["bits"] = 8
        write_checkpoint(self.checkout / path, config, {"model.safetensors": tensors})

    def write(self, path: str, text: str) -> None:
        """A file of the checkout."""
        place = self.checkout / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def __call__(self, event: str, payload: dict[str, Any] | str = "", **inputs: str) -> int:
        """Run it; the exit code. `fail_on` is the input `fail-on`."""
        number = len(self._runs)
        temp = self.folder / f"run{number}"
        temp.mkdir()
        self._runs.append(temp)
        text = payload if isinstance(payload, str) else json.dumps(payload)
        (temp / "event.json").write_text(text)
        environ = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.github.url,
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(temp / "event.json"),
            "GITHUB_OUTPUT": str(temp / "outputs"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_STEP_SUMMARY": str(temp / "summary"),
            "GITHUB_WORKSPACE": str(self.checkout),
            "RUNNER_TEMP": str(temp),
            "INPUT_GITHUB-TOKEN": "secret-token",
            **{f"INPUT_{k.replace('_', '-').upper()}": v for k, v in inputs.items()},
        }
        with self.monkeypatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["entrypoint.py"])
            patch.chdir(self.folder)
            with pytest.raises(SystemExit) as caught:
                entrypoint.main()
        self.log = self.capsys.readouterr().out
        return caught.value.code

    def pull_request(self, **inputs: str) -> int:
        """Run it for pull request 3."""
        return self("pull_request", PULL_REQUEST, **inputs)

    @property
    def outputs(self) -> dict[str, str]:
        """What the last run handed on."""
        found: dict[str, str] = {}
        lines = iter((self._runs[-1] / "outputs").read_text().splitlines())
        for head in lines:
            name, _, end = head.partition("<<")
            values = []
            while (line := next(lines)) != end:
                values.append(line)
            found[name] = "\n".join(values)
        return found

    @property
    def report(self) -> dict[str, Any]:
        """The JSON report of the last run."""
        return json.loads((self._runs[-1] / "quantgate/report.json").read_text())

    @property
    def checked(self) -> list[str]:
        """The models that the last run checked."""
        return [m["source"] for m in self.report["models"]]

    @property
    def notes(self) -> str:
        """What the last run said of itself."""
        return "\n".join(self.report.get("notes", []))


@pytest.fixture
def action(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    github: GitHubServer,
) -> Action:
    """The action in an empty checkout, with pull request 3 open on GitHub."""
    (tmp_path / "checkout").mkdir()
    for name in ("RUNNER_DEBUG", "RUNNER_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    return Action(tmp_path, monkeypatch, capsys, github)
