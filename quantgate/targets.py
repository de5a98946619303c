"""What the verdict is about: a vLLM release on a GPU generation with a tensor-parallel size."""

from __future__ import annotations

import re
from dataclasses import dataclass

NEWEST = "0.33.0"
_GPU = re.compile(r"sm_?(\d{2,3})")
_RELEASE = re.compile(r"\d+\.\d+(\.\d+)?")


def is_release(text: str) -> bool:
    """Whether it is a release of vLLM as a target names it, such as `0.33.0`."""
    return _RELEASE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Target:
    """One engine configuration.

    Attributes:
        release: vLLM release, such as `0.33.0`.
        gpu: `sm90`, `cpu`, or empty where no GPU was named: limits are then told as a requirement.
        tensor_parallel: Number of ranks that share the weights, at least 1.
    """

    release: str = NEWEST
    gpu: str = ""
    tensor_parallel: int = 1

    @property
    def capability(self) -> int | None:
        """Compute capability as vLLM counts it (`sm90` → 90), None for a CPU or no GPU."""
        match = _GPU.fullmatch(self.gpu)
        return int(match[1]) if match else None

    @property
    def version(self) -> tuple[int, ...]:
        """The release as numbers, for comparing."""
        return tuple(int(p) for p in self.release.split("."))

    def __str__(self) -> str:
        """As `parse` reads it."""
        parts = [f"vllm={self.release}"]
        if self.gpu:
            parts.append(f"gpu={self.gpu}")
        return ",".join([*parts, f"tp={self.tensor_parallel}"])

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read `vllm=0.33.0,gpu=sm90,tp=1`; every part may be left out.

        Raises:
            ValueError: An unknown key or a malformed value; the message says what is allowed.
        """
        release, gpu, tp = NEWEST, "", "1"
        for part in filter(None, (p.strip() for p in text.split(","))):
            key, _, value = part.partition("=")
            value = value.strip()
            match key.strip().lower():
                case "vllm":
                    release = value.removeprefix("v")
                case "gpu":
                    gpu = value.lower().replace("_", "")
                case "tp":
                    tp = value
                case _:
                    raise ValueError(f"target {text!r}: {key!r} is none of vllm, gpu, tp")
        if not is_release(release):
            raise ValueError(f"target {text!r}: vllm={release!r} is not a release such as 0.33.0")
        if gpu in {"", "none"}:
            gpu = ""
        elif gpu not in {"cpu", "rocm", "xpu"} and not _GPU.fullmatch(gpu):
            raise ValueError(f"target {text!r}: gpu={gpu!r} is not one of sm75 … sm120, cpu")
        if not tp.isascii() or not tp.isdigit() or not 1 <= int(tp) <= 1024:
            raise ValueError(f"target {text!r}: tp={tp!r} is not a number from 1 to 1024")
        return cls(release if release.count(".") == 2 else f"{release}.0", gpu, int(tp))
