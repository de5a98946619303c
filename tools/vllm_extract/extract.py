"""All facts of one unpacked release."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tools.vllm_extract.evaluate import PLATFORMS, Evaluator
from tools.vllm_extract.harvest import Harvest
from tools.vllm_extract.models import describe, flag_modules
from tools.vllm_extract.quantization import quantization
from tools.vllm_extract.reach import Reach
from tools.vllm_extract.registry import read_registry
from tools.vllm_extract.semantics import flag_sites, semantics
from tools.vllm_extract.source import SourceTree

if TYPE_CHECKING:
    from pathlib import Path

    from tools.vllm_extract.values import Json

_K_EQ_V: Final = frozenset({"attention_k_eq_v", "use_k_eq_v", "k_eq_v"})


@dataclass(frozen=True, slots=True)
class Extracted:
    """One release: its lists, and its records by the name of architecture, class and method."""

    release: str
    common: dict[str, Json]
    architectures: dict[str, Json]
    classes: dict[str, Json]
    methods: dict[str, Json]


def extract(root: Path, release: str) -> Extracted:
    """Read the facts of the release unpacked at `root`, for CUDA and where others differ.

    Raises:
        ValueError: A table that everything rests on does not have the known shape.
    """
    sys.setrecursionlimit(20_000)  # long `a + b + c` chains in the sources nest deeply
    tree = SourceTree(root)
    main, *others = (Evaluator(tree, platform) for platform in PLATFORMS)
    harvest = Harvest(main)
    registry = read_registry(main)
    sites = flag_sites(main, _K_EQ_V)
    records = describe(Reach(harvest), registry, others, flag_modules(sites))
    lists, methods = quantization(harvest)
    common: dict[str, Json] = {
        "release": release,
        "quantization": lists,
        "semantics": semantics(main),
        "k_eq_v": sites,
        "removed": registry.removed,
        "out_of_tree": registry.out_of_tree,
        "parse_errors": tree.errors,
    }
    return Extracted(release, common, records.architectures, records.classes, methods)
