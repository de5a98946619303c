"""The GPUs that can be simulated: what vLLM may ask about them.

Sizes are those of one common card per generation. vLLM looks at them when it sizes its caches and
picks kernels, hardly when it loads weights.
"""

from __future__ import annotations

from typing import NamedTuple


class Gpu(NamedTuple):
    """One card: compute capability, name, memory in GiB, streaming multiprocessors."""

    capability: tuple[int, int]
    name: str
    memory: int
    multiprocessors: int


GPUS: dict[str, Gpu] = {
    "sm75": Gpu((7, 5), "Tesla T4", 16, 40),
    "sm80": Gpu((8, 0), "NVIDIA A100-SXM4-80GB", 80, 108),
    "sm86": Gpu((8, 6), "NVIDIA A10", 24, 72),
    "sm89": Gpu((8, 9), "NVIDIA L40S", 48, 142),
    "sm90": Gpu((9, 0), "NVIDIA H100 80GB HBM3", 80, 132),
    "sm100": Gpu((10, 0), "NVIDIA B200", 180, 148),
    "sm103": Gpu((10, 3), "NVIDIA B300", 268, 148),
    "sm120": Gpu((12, 0), "NVIDIA RTX PRO 6000 Blackwell Server Edition", 96, 188),
}
CPU = "cpu"
