"""Checkpoints that the quantizers' own code wrote must pass.

The archives in tests/data/witness hold the headers of what compressed-tensors 0.17.0 wrote; the
slow test has the library write them again and compares.
"""

import os
import subprocess
from pathlib import Path

import pytest

from quantgate.checkpoint import open_checkpoint
from quantgate.findings import Severity
from quantgate.runner import check_checkpoint
from quantgate.targets import Target

ROOT = Path(__file__).parent.parent.parent
ARCHIVES = sorted((ROOT / "tests" / "data" / "witness").glob("*.json.gz"))
PYTHON = Path(os.environ.get("WITNESS_PYTHON", ROOT / ".venv-witness" / "bin" / "python"))


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda p: p.name.partition(".")[0])
def test_recorded_checkpoint_passes(archive: Path) -> None:
    """Nothing above info is found in what the library itself writes."""
    report = check_checkpoint(open_checkpoint(str(archive)), [Target()])

    assert report.stats.tensors > 30
    assert [f for f in report.findings if f.severity is not Severity.INFO] == []


def test_every_preset_is_recorded() -> None:
    """The recordings cover packed int4 and int8, int8, fp8, nvfp4 and mxfp4."""
    assert len(ARCHIVES) == 11


@pytest.mark.e2e
def test_library_still_writes_the_recordings(tmp_path: Path) -> None:
    """The compressor's output today has the recorded configs, names, types and shapes."""
    if not PYTHON.exists():
        pytest.skip(f"{PYTHON} does not exist; `make witness` installs compressed-tensors")
    script = Path(__file__).with_name("write_compressed.py")
    subprocess.run([PYTHON, script, tmp_path], check=True, capture_output=True)
    for archive in ARCHIVES:
        recorded = open_checkpoint(str(archive))
        written = open_checkpoint(str(tmp_path / archive.name.partition(".")[0]))

        assert written.config == recorded.config
        assert {t.name: (t.dtype, t.shape) for t in written.tensors.values()} == {
            t.name: (t.dtype, t.shape) for t in recorded.tensors.values()
        }
