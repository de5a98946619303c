"""What tests of several folders need."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session

from tests.support.lfs_server import FakeLfs
from tests.support.trained import kept

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT = Path(__file__).parents[1] / "out"
TOKENS = ("HF_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "CI_JOB_TOKEN", "CI_SERVER_URL")


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """A Python with vLLM."""
    python = os.environ.get("VLLM_PYTHON", "")
    if not python:
        pytest.skip("VLLM_PYTHON names no Python with vLLM")
    return python


@pytest.fixture(scope="session")
def trained_base(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that knows the bundled text; training it takes a minute, once."""
    return kept(vllm_python, OUT, tmp_path_factory.mktemp("trained"))


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No token, no cache of the user's, no job around."""
    jobs = ("GITHUB_ACTIONS", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_WORKSPACE")
    for variable in (*TOKENS, *jobs):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setenv("QUANTGATE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def lfs(clean: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLfs]:
    """An LFS server that is the job's GitHub."""
    server = FakeLfs()
    monkeypatch.setenv("GITHUB_SERVER_URL", server.address)
    with server.running():
        yield server
        close_session()
