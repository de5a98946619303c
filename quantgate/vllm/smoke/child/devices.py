"""The device that vLLM takes, held against the one that was asked for."""

from __future__ import annotations

from typing import Any

import torch
from vllm.platforms import current_platform

from quantgate.vllm.children.inside.release import Refused


def device(wanted: str, count: int) -> dict[str, Any]:
    """Kind (`cuda`, `rocm`, `xpu`, `cpu`), `gpu` as a target names it, and name of the device.

    Args:
        wanted: A kind, or `auto` for whatever vLLM takes.
        count: How many devices are needed.

    Raises:
        Refused: It is another one, or there are too few.
    """
    kind = _kind()
    if not kind:
        raise Refused("vLLM finds no device here that it can run on")
    if wanted not in {"auto", kind}:
        raise Refused(f"{wanted} was asked for, and vLLM finds only {kind} here")
    if kind == "cpu":
        return {"kind": kind, "gpu": "cpu", "name": ""}
    there = torch.xpu.device_count() if kind == "xpu" else torch.cuda.device_count()
    if there < count:
        raise Refused(f"{count} devices are needed for tp {count}, and {there} are here")
    gpu = kind
    if kind == "cuda":
        capability = current_platform.get_device_capability()
        gpu = f"sm{capability.to_int()}" if capability is not None else ""
    return {"kind": kind, "gpu": gpu, "name": str(current_platform.get_device_name())}


def _kind() -> str:
    for kind in ("rocm", "cuda", "xpu", "cpu"):
        if getattr(current_platform, f"is_{kind}")():
            return kind
    return ""
