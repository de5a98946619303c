"""QG430 padded-words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.quantization.difference import Kind
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG430", "padded-words", methods=["compressed-tensors"])
def check(model: Model) -> Iterator[Fault]:
    """Values of 3, 5, 6 or 7 bits are packed with unused bits in every word.

    ## What it checks

    The width of `weight_packed` against K = in_features. compressed-tensors up to 0.17 put whole
    values into each 32-bit word, ten of 3 bits, six of 5, five of 6, four of 7, and left the rest
    of the word empty. Since 0.18 it packs densely, across the words: K * bits / 32 of them. 2, 4
    and 8 bits are the same in both.

    ## Why it matters

    Every release of vLLM that takes these bits allocates dense words. A column-parallel layer ends
    in a bare `AssertionError`; a row-parallel one (`o_proj`, `down_proj`) is cut to length without
    a word, and its values are garbage.

    ## Example

    ```
    weights: {num_bits: 3, type: int, strategy: group, group_size: 128}
    model.layers.0.mlp.up_proj.weight_packed  I32 [11008, 410]     # K = 4096: vLLM wants 384
    ```

    ## Fix

    Pack the weights again with compressed-tensors 0.18 or newer.

    ## Seen in

    - https://github.com/vllm-project/compressed-tensors/pull/732
    - Observed with vLLM 0.32.0's own loader.

    ## Not checked

    The order inside the words. Embeddings, which vLLM allocates with padded words. Modules whose K
    nothing tells.
    """
    for module, d in model.differing(Kind.PADDED):
        effect = (
            "vLLM cuts them to length without a word, and the values are garbage"
            if d.outcome is Outcome.SILENT
            else "the load ends in a bare `AssertionError`"
        )
        yield Fault(
            message="The words have unused bits, as compressed-tensors wrote them before 0.18, and "
            f"vLLM allocates densely packed ones: {effect}.",
            module=module,
            expected=d.expected,
            found=d.found,
            fix="Pack the weights again with compressed-tensors 0.18 or newer.",
            outcome=d.outcome,
        )
