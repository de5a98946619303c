"""One rank of a tensor-parallel group that has no other members.

Loading a rank needs the group's size and the rank's number, never an answer of another rank.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from typing import Any


def ranks(size: int) -> tuple[int, ...]:
    """The ranks worth loading: the first, and the last, which gets what is left over."""
    return (0,) if size == 1 else (0, size - 1)


class Group:
    """vLLM's groups, made once per process and then told which rank they are."""

    def __init__(self) -> None:
        self.made = False

    def become(self, rank: int, size: int) -> None:
        """Be this rank. A vLLM config must be set."""
        from vllm.distributed import parallel_state

        state: Any = parallel_state
        if not self.made:
            store = Path(mkdtemp()) / "store"
            state.init_distributed_environment(1, 0, f"file://{store}", 0, "gloo")
            state.initialize_model_parallel(1, 1)
            self.made = True
        if getattr(state, "_EP", None) is None:
            # It is made only if the first model of a process has experts.
            state._EP = state._DP
        state._TP.world_size = size
        state._TP.rank_in_group = rank
