"""QG448 unequal-fused-scales."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from quantgate.model import Model

_GLOBAL = ("weight_global_scale", "weight_scale_2")
_INPUT = ("input_global_scale", "input_scale")
_PAIR = frozenset({"gate_proj", "up_proj", "w1", "w3"})


@rule("QG448", "unequal-fused-scales", severity=Severity.WARNING, outcome=Outcome.SILENT)
def check(model: Model) -> Iterator[Fault]:
    """The parts of a fused layer have different scales where vLLM has room for one.

    ## What it checks

    With `--read-scalars`: that `weight_global_scale` or `weight_scale_2`, and `input_global_scale`
    or `input_scale`, are equal across the parts of a fused layer (q, k and v; gate and up), and the
    global weight scale across gate and up of every routed expert.

    ## Why it matters

    vLLM keeps one number for the whole layer: the greatest of its parts, for experts that of
    gate. The other parts are then scaled with a number they were not quantized for. It logs a
    warning (`In NVFP4 linear, the global weight scale differs across parallel layers`,
    `w1_weight_scale_2 must match w3_weight_scale_2. Accuracy may be affected.`), starts, and
    answers worse.

    ## Example

    ```
    model.layers.0.self_attn.q_proj.weight_scale_2   0.00021
    model.layers.0.self_attn.k_proj.weight_scale_2   0.00054
    ```

    ## Fix

    Calibrate and export with one global scale for the parts of fused layers, as llm-compressor and
    ModelOpt do.

    ## Seen in

    - https://github.com/intel/auto-round/issues/2380
    - https://github.com/vllm-project/vllm/pull/47515 (33 of 36 layers of one model)

    ## Not checked

    Anything without `--read-scalars`. The weight scales of FP8, which vLLM quantizes again with the
    greatest one. Input scales across experts, of which vLLM takes the greatest by design.
    """
    values = model.checkpoint.scalars or {}
    if not values:
        return
    for layer in model.layers:
        if layer.cls == "RoutedExperts":
            for pair in _pairs(layer.modules):
                yield from _faults(values, pair, _GLOBAL, "that of gate")
        elif layer.shards:
            parts = [module for _, module in layer.shards if module is not None]
            yield from _faults(values, parts, _GLOBAL + _INPUT, "the greatest")


def _pairs(modules: Sequence[str]) -> list[list[str]]:
    """Gate and up of each expert."""
    experts: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        expert, _, leaf = module.rpartition(".")
        if leaf in _PAIR:
            experts[expert].append(module)
    return list(experts.values())


def _faults(
    values: Mapping[str, tuple[float, ...]],
    parts: Sequence[str],
    leaves: Sequence[str],
    taken: str,
) -> Iterator[Fault]:
    for leaf in leaves:
        found = [values[name] for part in parts if (name := f"{part}.{leaf}") in values]
        if len(set(found)) < 2 or any(math.isnan(n) for one in found for n in one):
            continue
        yield Fault(
            message="The parts of this fused layer have different scales, and vLLM keeps one for "
            f"all of them ({taken}): the server starts, and the other parts lose accuracy.",
            module=parts[0],
            tensor=f"{parts[0]}.{leaf}",
            expected=f"one `{leaf}` for {len(found)} parts",
            found=f"{len(set(found))} different values",
            fix="Calibrate and export with one scale for the parts of fused layers.",
        )
