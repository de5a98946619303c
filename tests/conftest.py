"""What tests of several folders need."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.trained import trained

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """A Python with vLLM."""
    python = os.environ.get("VLLM_PYTHON", "")
    if not python:
        pytest.skip("VLLM_PYTHON names no Python with vLLM")
    return python


@pytest.fixture(scope="session")
def trained_base(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that knows the bundled text; training it takes a minute."""
    return trained(vllm_python, tmp_path_factory.mktemp("trained") / "model")
