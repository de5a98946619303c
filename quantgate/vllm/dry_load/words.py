"""The words for what a dry load found, for its tier and for its rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.vllm.dry_load.result import DryOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quantgate.vllm.dry_load.result import DryLoad

MAX_MESSAGE = 600

WHILE = {
    "config": "While it reads the config",
    "init": "While it builds the model",
    "load": "While it loads the weights",
    "post": "While it prepares the loaded weights",
}


def rank_words(load: DryLoad) -> str:
    """` (rank 3)`, where there is more than one."""
    return f" (rank {load.rank})" if load.target.tensor_parallel > 1 else ""


def one_line(text: str) -> str:
    """What vLLM said, as one line of at most `MAX_MESSAGE` characters."""
    return " ".join(text.split())[:MAX_MESSAGE]


def silent_faults(load: DryLoad, messages: Mapping[str, str], fix: str) -> Iterator[Fault]:
    """A fault for every name of a silent load.

    Args:
        load: The dry load.
        messages: By kind of fault, with places for `{release}` and `{rank}`. Kinds without one are
            left out.
        fix: What to do.
    """
    if load.outcome is not DryOutcome.SILENT:
        return
    for of in load.silent:
        if of.kind not in messages:
            continue
        message = messages[of.kind].format(release=load.target.release, rank=rank_words(load))
        # Of many, only some are named.
        message += f": {of.count:,} in all." if of.count > len(of.names) else "."
        for name in of.names or ("",):
            place, _, detail = name.partition(": ")
            yield Fault(message=message, tensor=place, found=detail, fix=fix)
