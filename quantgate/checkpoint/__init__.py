"""From a source (folder, header archive) to a `Checkpoint`. All reading of files is in here."""

from quantgate.checkpoint.model import (
    Checkpoint,
    ConfigFile,
    Defect,
    DefectKind,
    Header,
    Index,
    Tensor,
    WeightFile,
)

__all__ = [
    "Checkpoint",
    "ConfigFile",
    "Defect",
    "DefectKind",
    "Header",
    "Index",
    "Tensor",
    "WeightFile",
]
