"""QG450 norm-size-mismatch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG450", "norm-size-mismatch")
def check(model: Model) -> Iterator[Fault]:
    """A norm has another length than config.json implies.

    ## What it checks

    The length of every norm against the key of config.json that vLLM sizes it by, for the
    architectures of which that is known.

    ## Why it matters

    vLLM allocates after config.json and compares shapes when it loads: `Attempted to load weight
    (torch.Size([..])) into parameter (torch.Size([..]))`.

    ## Example

    ```
    "head_dim": 64
    model.layers.0.self_attn.q_norm.weight  BF16 [128]
    ```

    ## Fix

    Take config.json from the model that was quantized.

    ## Seen in

    Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Architectures that vLLM's classes were not looked at for. Linear modules (QG418), the embedding
    and the head (QG446).
    """
    built = model.built
    if built is None:
        return
    for module, leaves in model.modules.items():
        dtype, shape = leaves.get("weight", ("", ()))
        width = built.width(module) if len(shape) == 1 else None
        if width is None or shape == (width,):
            continue
        yield Fault(
            message="config.json implies another length: the load ends in `Attempted to load "
            "weight .. into parameter ..`.",
            module=module,
            tensor=f"{module}.weight",
            expected=f"[{width}] (config.json)",
            found=f"{dtype} {list(shape)}",
            fix="Compare hidden_size and head_dim with the config.json of the base model, or "
            "export the module again.",
        )
