"""What a smoke load is done with."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from importlib import resources

from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.vllm.children.process import Limits
from quantgate.vllm.smoke.sanity import Thresholds

DEVICES = ("auto", "cuda", "rocm", "xpu", "cpu")
DTYPES = ("auto", "float16", "bfloat16", "float32")
MAX_MODEL_LEN = 1024
"""Tokens of context where the user names no number; the text and the prompts need no more."""
MIN_MODEL_LEN = 16
"""Tokens of context below which nothing can be told of what a model says."""
DOWNLOAD_SECONDS = 6 * 3600.0
"""For fetching one model from Git LFS: 400 GB at 20 MB/s. A stalled server is given up sooner."""
MAX_PROMPTS = 64
MAX_PROMPT = 4000


def bundled(name: str) -> str:
    """A text file beside this module."""
    return resources.files("quantgate.vllm.smoke").joinpath(name).read_text("utf-8")


def prompts_in(text: str) -> tuple[str, ...]:
    """One prompt a line; empty lines are none.

    Raises:
        ValueError: There are none, or too many.
    """
    prompts = tuple(line.strip()[:MAX_PROMPT] for line in text.splitlines() if line.strip())
    if not 1 <= len(prompts) <= MAX_PROMPTS:
        raise ValueError(f"from 1 to {MAX_PROMPTS} prompts, one a line; these are {len(prompts)}")
    return prompts


def most_memory() -> int:
    """Bytes that a child may hold: most of what the machine has, so that the system lives on."""
    return int(0.9 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


@dataclass(frozen=True, slots=True)
class Settings:
    """How to load, what to ask, what to accept.

    Attributes:
        vllm_python: A Python that has vLLM.
        device: One of `DEVICES`; `auto` is what vLLM takes by itself.
        dtype: One of `DTYPES`; `auto` is the model's own on a GPU, float16 on a CPU.
        tensor_parallel: How many devices share the weights.
        max_model_len: Tokens of context; 0 for what the text needs.
        text: What is scored.
        prompts: What is continued.
        max_tokens: Tokens of each answer.
        limits: For every child process.
        thresholds: What of the output is accepted.
        lfs: Which servers may be asked for the files behind Git LFS pointers.
    """

    vllm_python: str = sys.executable
    device: str = "auto"
    dtype: str = "auto"
    tensor_parallel: int = 1
    max_model_len: int = 0
    text: str = field(default_factory=lambda: bundled("text.txt"))
    prompts: tuple[str, ...] = field(default_factory=lambda: prompts_in(bundled("prompts.txt")))
    max_tokens: int = 32
    limits: Limits = field(default_factory=lambda: Limits(1800.0, most_memory()))
    thresholds: Thresholds = field(default_factory=Thresholds)
    lfs: Lfs = Lfs.AUTO
