"""The trained tiny model that the end-to-end tests quantize."""

from __future__ import annotations

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
