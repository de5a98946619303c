"""QG413 wrong-rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.patching import scheme_patch
from quantgate.quantization.difference import Kind
from quantgate.quantization.expected import Role
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model
    from quantgate.quantization.difference import Difference


@rule("QG413", "wrong-rank")
def check(model: Model) -> Iterator[Fault]:
    """A tensor has too many or too few axes.

    ## What it checks

    The number of axes of every tensor of a quantized module: channel scales are [N, 1] and not [N];
    one scale per tensor is [] or [1], not [1, 1] and not [N, 1]; blocks are [N/128, K/128].

    ## Why it matters

    vLLM asserts equal shapes and does not reshape: a bare `AssertionError`, or `Attempted to load
    weight .. into parameter ..`. Usually the strategy is declared wrong: `tensor` where the scales
    are those of `channel`.

    ## Example

    ```
    config_groups.group_0.weights: {"num_bits": 8, "type": "float", "strategy": "channel"}
    model.layers.0.mlp.up_proj.weight_scale  F32 [512]      # vLLM wants [512, 1]
    ```

    ## Fix

    Declare the strategy of the files, or store the scale with its axis of length 1.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/54126

    ## Not checked

    Scales with the right number of axes and wrong lengths (QG412).
    """
    patch = scheme_patch(model, Kind.RANK, _strategy)
    for module, d in model.differing(Kind.RANK):
        strategy = _strategy(d).get("strategy")
        yield Fault(
            message=f"{d.leaf} has another number of axes than vLLM allocates for the "
            "declared scheme; the load ends in a bare `AssertionError` or `Attempted to load "
            "weight`.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=d.expected,
            found=d.found,
            fix=f"Declare `strategy: {strategy}`, which these scales have."
            if patch
            else f"Store {d.leaf} with the expected axes, or declare the scheme it belongs to.",
            patch=patch,
            outcome=d.outcome,
        )


def _strategy(difference: Difference) -> dict[str, str]:
    """The strategy of compressed-tensors whose weight scale has the stored number of axes."""
    if difference.leaf != "weight_scale" or difference.role is not Role.SCALE:
        return {}
    shape = difference.found.strip("[]").split(", ")
    if len(shape) == 2:
        return {"strategy": "channel"} if shape[1] == "1" and shape[0] != "1" else {}
    return {"strategy": "tensor"} if shape in ([""], ["1"]) else {}
