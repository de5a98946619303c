"""QG421 surplus-layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG421", "surplus-layer")
def check(model: Model) -> Iterator[Fault]:
    """The files hold layers that config.json does not count.

    ## What it checks

    That no stored layer has a number of `num_hidden_layers` or more. The layers that follow for a
    draft model (`num_nextn_predict_layers`) are allowed.

    ## Why it matters

    vLLM has no module for them and stops: `There is no module or parameter named 'layers.32'`, or
    `KeyError` in model classes with a loop of their own.

    ## Example

    ```
    "num_hidden_layers": 31
    model.layers.31.mlp.up_proj.weight
    ```

    ## Fix

    Correct `num_hidden_layers`, or remove the tensors.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader.

    ## Not checked

    Layers of other towers.
    """
    decoder = model.decoder
    if decoder is None:
        return
    for index in decoder.surplus_layers():
        yield Fault(
            message=f"config.json counts {decoder.declared} layers, and these come after them: "
            "vLLM has no module for their tensors and stops "
            "(There is no module or parameter named …).",
            module=f"{decoder.root}.{index}",
            expected=f"layers 0 to {(decoder.declared or 0) - 1}",
            found=f"layer {index}",
            fix="Correct num_hidden_layers, or remove these tensors.",
        )
