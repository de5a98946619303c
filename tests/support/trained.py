"""The trained tiny model that the end-to-end tests quantize."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from quantgate.vllm.smoke.settings import bundled

SCRIPT = Path(__file__).parent / "train_tiny.py"


def trained(python: str, folder: Path) -> Path:
    """Train it on the bundled text, which takes a minute; returns its folder."""
    folder.mkdir(parents=True)
    text = folder / "text.txt"
    text.write_text(bundled("text.txt"), encoding="utf-8")
    model = folder / "base"
    subprocess.run([python, str(SCRIPT), str(text), str(model)], check=True, capture_output=True)
    return model


def kept(python: str, folder: Path, scratch: Path) -> Path:
    """The same, kept in a folder for the next run as long as text and training stay the same.

    Args:
        python: A Python with torch and transformers.
        folder: Where it is kept.
        scratch: An empty folder on the same disk or another, for the training.
    """
    meant = SCRIPT.read_bytes() + bundled("text.txt").encode()
    place = folder / f"trained-{hashlib.sha256(meant).hexdigest()[:12]}"
    if not place.exists():
        model = trained(python, scratch / "training")
        folder.mkdir(parents=True, exist_ok=True)
        partial = place.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(model, partial)
        partial.rename(place)
    return place
