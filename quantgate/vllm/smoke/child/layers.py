"""What vLLM chose for each kind of layer: quantization method, scheme, kernel."""

from __future__ import annotations

import re
from typing import Any

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")
_KERNELS = ("kernel", "linear_kernel", "moe_kernel", "fp8_linear", "mxfp4_backend", "backend")


def weight_bytes(worker: Any) -> int:
    """Bytes of parameters that this rank holds, as they lie in memory after loading."""
    return sum(p.numel() * p.element_size() for p in worker.get_model().parameters())


def layers(worker: Any) -> list[dict[str, Any]]:
    """One entry for modules of this rank alike but for their layer and expert numbers.

    In vLLM a module has a `quant_method`; compressed-tensors and Quark give it a `scheme` as well.
    Either holds its kernel (vLLM 0.32.0, model_executor/kernels/linear).
    """
    found: dict[tuple[str, str, str, str], int] = {}
    for name, module in worker.get_model().named_modules():
        method = getattr(module, "quant_method", None)
        if method is None:
            continue
        scheme = getattr(module, "scheme", None)
        kind = _NUMBER.sub("*", name)
        key = (kind, _name(method), _name(scheme), _kernel(scheme) or _kernel(method))
        found[key] = found.get(key, 0) + 1
    return [
        {"layers": kind, "method": method, "scheme": scheme, "kernel": kernel, "count": count}
        for (kind, method, scheme, kernel), count in found.items()
    ]


def _name(value: Any) -> str:
    return "" if value is None else type(value).__name__


def _kernel(holder: Any) -> str:
    for attribute in _KERNELS:
        kernel = getattr(holder, attribute, None)
        if kernel is not None:
            # Some name the backend with an enum instead of holding the kernel.
            return str(getattr(kernel, "name", "") or type(kernel).__name__)
    return ""
