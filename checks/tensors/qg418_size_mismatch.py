"""QG418 size-mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault
from quantgate.quantization.difference import Kind
from quantgate.quantization.sizes import NEIGHBOURS
from quantgate.rules import rule
from quantgate.vllm.loading import shape_consequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG418", "size-mismatch")
def check(model: Model) -> Iterator[Fault]:
    """The size of a module is not the one that config.json or its neighbours give.

    ## What it checks

    N and K of modules whose tensors agree with each other, against `hidden_size`, the heads and
    `intermediate_size` of config.json for plain architectures, or against the embedding, the norms
    and the sibling projections.

    ## Why it matters

    vLLM allocates after config.json: `start (0) + length (..) exceeds dimension size`, `Attempted
    to load weight .. into parameter ..` or a bare `AssertionError`. A tensor that is too long on
    the axis that its layer slices is cut without a word, experts that are too small are stretched.

    ## Example

    ```
    config.json: {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64}
    model.layers.0.self_attn.k_proj.weight  F8_E4M3 [128, 256]    # two heads, not four
    ```

    ## Fix

    Take config.json from the model that was quantized, or export the module again.

    ## Seen in

    Observed with the loader of vLLM 0.32.0.

    ## Not checked

    Architectures with gated queries, latent attention or heads that differ by layer, where
    config.json alone does not give the sizes.
    """
    for module, d in model.differing(Kind.SIZE):
        likely = d.witness == NEIGHBOURS
        yield Fault(
            message=f"The tensors agree on another size than {d.witness} gives: "
            f"{shape_consequence(d.outcome)}.",
            module=module,
            tensor=f"{module}.{d.leaf}",
            expected=f"{d.expected} ({d.witness})",
            found=d.found,
            fix="Compare hidden_size, num_attention_heads, num_key_value_heads, head_dim and "
            "intermediate_size with the config.json of the base model, or export the module "
            "again.",
            outcome=d.outcome,
            confidence=Confidence.LIKELY if likely else Confidence.CERTAIN,
        )
