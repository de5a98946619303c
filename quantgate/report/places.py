"""Where a finding is in the files of a checkout: the config's line, or the weight file.

The rules know names, not lines; the line is looked up in the config.json that lies at the source
of a model. A model that is not in the checkout has a file name, but no line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quantgate.fixing.json_text import line_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from quantgate.findings import Finding
    from quantgate.report.model import ModelReport

CONFIG = "config.json"
MAX_CONFIG = 4 * 1024 * 1024
_WEIGHTS = re.compile(r"[\w.-]+\.safetensors", re.ASCII)
# Where vLLM looks for a declaration, hence where a finding on it belongs without a patch.
_DECLARATIONS = ("/quantization_config", "/compression_config")


@dataclass(frozen=True, slots=True)
class Config:
    """The config of a model in the checkout: its path from there, with `/`, and its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """A file of the checkout and a line in it, from 1; 0 where no line is known."""

    file: str
    line: int = 0


def configs_in(root: Path, models: Iterable[ModelReport]) -> dict[str, Config]:
    """The configs that lie in the checkout, by the source of their model.

    Whatever cannot be read is left out: the report does not depend on it. Links are followed
    within the checkout only.
    """
    found = {}
    root = root.resolve()
    for source in dict.fromkeys(m.source for m in models):
        try:
            path = (root / source / CONFIG).resolve()
            if not path.is_relative_to(root) or not path.is_file():
                continue
            with path.open("rb") as file:
                text = file.read(MAX_CONFIG + 1).decode()
        except (OSError, ValueError):
            continue
        if len(text) <= MAX_CONFIG:
            found[source] = Config(path.relative_to(root).as_posix(), text)
    return found


def place_of(finding: Finding, model: ModelReport, configs: Mapping[str, Config]) -> Place | None:
    """Where a finding is: in a weight file, at a key of the config, or somewhere in the config.

    None for a model that is not in the checkout.
    """
    config = configs.get(model.source)
    if config is None:
        return None
    name = finding.tensor or finding.pattern
    if _WEIGHTS.fullmatch(name):
        return Place(config.path.removesuffix(CONFIG) + name)
    pointers = [str(op.get("path", "")) for op in finding.patch] or list(_DECLARATIONS)
    lines = (line_of(config.text, pointer) for pointer in pointers)
    return Place(config.path, next((line for line in lines if line), 0))
