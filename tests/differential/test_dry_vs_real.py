"""The dry load on the CPU platform against real loads of the same models, weights and all.

Needs a Python with vLLM (`VLLM_PYTHON`), torch and transformers; part of `make e2e`. A real load
takes ten to thirty seconds, so this is a share of the cases; `python -m benchmarks.dry_vs_real` has
all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.dry_vs_real import CASES, HEALTHY, compare

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.dry_vs_real import Compared

pytestmark = pytest.mark.e2e

SHARE = [name for i, name in enumerate(CASES) if name.endswith(HEALTHY) or i % 6 == 1]


@pytest.fixture(scope="module")
def outcomes(
    trained_base: Path, vllm_python: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Compared]:
    """The share of the cases through both."""
    folder = tmp_path_factory.mktemp("cases")
    return {c.name: c for c in compare(trained_base, folder, vllm_python, SHARE)}


@pytest.mark.parametrize("name", SHARE)
def test_dry_load_says_what_a_real_load_does(name: str, outcomes: dict[str, Compared]) -> None:
    """The same outcome: it loads, it fails, or it is silently wrong."""
    found = outcomes[name]
    assert found.dry == found.real, found


def test_enough_is_broken(outcomes: dict[str, Compared]) -> None:
    """Healthy models load, and most of the others do not work in fact."""
    assert {c.real for n, c in outcomes.items() if n.endswith(HEALTHY)} == {"loads"}
    assert sum(c.real in {"fails", "silent"} for c in outcomes.values()) > len(SHARE) / 3
