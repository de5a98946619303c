"""Reading the good model of the loopback Hub, with little patience."""

from __future__ import annotations

from dataclasses import replace

from quantgate.checkpoint.cache import Cache
from quantgate.checkpoint.hub import read_hub
from quantgate.checkpoint.model import Defect
from quantgate.checkpoint.raw import RawCheckpoint
from quantgate.checkpoint.transport import Limits
from quantgate.findings import Verdict
from quantgate.runner import check_models

ID = "org/model"
QUICK = Limits(deadline=60, stall=10, tries=3, backoff=0.01)
# Where the server stalls; elsewhere a busy machine would look like one that does.
IMPATIENT = replace(QUICK, stall=0.2)
FIRST = "model-00001-of-00002.safetensors"


def read(source: str = ID, limits: Limits = QUICK, cache: Cache | None = None) -> RawCheckpoint:
    """Read with little patience, and without a cache."""
    return read_hub(source, limits=limits, cache=cache or Cache(None))


def defects(raw: RawCheckpoint) -> dict[str, Defect]:
    """File → why its header is missing."""
    return {f.name: f.header for f in raw.files if isinstance(f.header, Defect)}


def verdict(source: str = ID) -> tuple[Verdict, set[str]]:
    """What the gate says of a model, and the rules that have findings."""
    model = check_models([source]).models[0]
    return model.verdict, {f.rule for f in model.findings}
