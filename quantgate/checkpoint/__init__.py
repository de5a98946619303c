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
from quantgate.checkpoint.sources import SourceError, open_checkpoint, read_source

__all__ = [
    "Checkpoint",
    "ConfigFile",
    "Defect",
    "DefectKind",
    "Header",
    "Index",
    "SourceError",
    "Tensor",
    "WeightFile",
    "open_checkpoint",
    "read_source",
]
