"""QG431 surplus-transform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.transforms import ONLINE
from quantgate.rules import rule
from quantgate.vllm.transforms import applied

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG431", "surplus-transform", methods=["compressed-tensors"])
def check(model: Model) -> Iterator[Fault]:
    """The weight of a transform is stored for a layer to which vLLM applies none.

    ## What it checks

    Every stored `<layer>.<group>_<location>.weight` against `transform_config`: a group of that
    name must have an entry at `input` or `output` whose targets cover the layer. vLLM has no
    transforms at `k_cache` and `q_attn` and gives an attention none.

    ## Why it matters

    vLLM makes a module for the weight only where the config applies the transform. Elsewhere the
    load ends in `There is no module or parameter named '..R4_input'`.

    ## Example

    ```
    transform_config: {config_groups: {R3: {type: hadamard, apply: [{location: k_cache, …}]}}}
    model.layers.0.self_attn.R3_k_cache.weight    F32 [64, 64]
    ```

    ## Fix

    Add the entry to `transform_config`, or drop the tensors. Rotations at `k_cache` and `q_attn`
    cancel each other, so without quantization of the cache the model is right without them.

    ## Seen in

    - https://github.com/vllm-project/vllm/pull/22486 (where vLLM got transforms)
    - Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Weights of transforms that are not square, or that lie at an embedding.
    """
    if not model.transform_weights:
        return
    wanted = {f"{module}.{t.weight_module}" for module, t in applied(model, ONLINE)}
    for module in sorted(model.transform_weights - wanted):
        yield Fault(
            message="`transform_config` gives this layer no transform of this name that vLLM "
            "applies, and the load ends in `There is no module or parameter named ..`.",
            module=module,
            expected="an entry at input or output that covers the layer",
            found="none",
            fix="Add the entry to `transform_config`, or drop the tensors.",
        )
