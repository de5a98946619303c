"""QG602 tensor-parallel-indivisible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule
from quantgate.vllm.parallel import obstacles, working_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG602", "tensor-parallel-indivisible", per_target=True)
def check(model: Model) -> Iterator[Fault]:
    """The layers cannot be split into as many ranks as the target has.

    ## What it checks

    For the target's tensor-parallel size: attention heads and key-value heads, the output axis N
    of column-parallel layers (`gate_proj`, `up_proj`), the input axis K of row-parallel ones
    (`o_proj`, `down_proj`), and that each rank's share of K holds whole quantization groups,
    blocks and packed words. The same for the experts. The heads and groups of state spaces
    (Mamba2), and that the tensors of their `in_proj` can be cut into gate, x, B, C and dt: for
    each release, which of them its loaders cut so. That no layer has a transform of
    compressed-tensors at run time (`transform_config` with `input` or `output`).

    ## Why it matters

    vLLM stops while it builds the model: `2 is not divisible by 4`, a bare assertion, `Weight
    input_size_per_partition … is not divisible by group_size`, `… is not divisible by weight
    quantization block_k`, or the scales of a GPTQ or AWQ layer are cut and the kernel has no
    implementation. Where a state space has one group for several ranks, each rank gets a copy of
    it, but only in the tensors that the loader was given to know; in others `start (..) + length
    (..) exceeds dimension size`, or `slice() cannot be applied to a 0-dim tensor` for the scale of
    a whole tensor. With a transform: `Online transforms with tensor parallelism is not supported`.

    ## Example

    ```
    --target tp=8, group_size 128
    model.layers.0.mlp.down_proj    K = 29568, 29568 / 8 = 3696, not a multiple of 128
    ```

    ## Fix

    Serve with one of the sizes that work (the finding lists them), or quantize with a smaller group
    size.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/52997 (an FP8 block of 128 in a share of 64)
    - https://github.com/vllm-project/vllm/pull/58083 (a state space of one group, scales per row)
    - https://github.com/vllm-project/vllm/pull/34476 (0.16.0: scales of another section)
    - Observed with vLLM 0.32.0's own loader: GPTQ at tp 4; state spaces of one, two and eight
      groups in 18 methods at tp 2 and 4.

    ## Not checked

    Expert parallelism, pipeline parallelism and the padding that some kernels add. Modules whose
    size no witness knows. State spaces whose number of groups config.json leaves to a default, and
    gated delta nets.
    """
    size = model.target.tensor_parallel
    if size == 1:
        return
    found = list(obstacles(model, size))
    if not found:
        return
    works = ", ".join(map(str, working_sizes(model))) or "none"
    for obstacle in found:
        yield Fault(
            message=f"With tensor_parallel {size} vLLM cannot split these layers: "
            f"{obstacle.found}.",
            module=obstacle.module,
            expected=obstacle.expected,
            found=obstacle.found,
            fix=f"Serve with one of these sizes, which work: {works}."
            if works != "none"
            else "Quantize with a smaller group size.",
            outcome=obstacle.outcome,
        )
