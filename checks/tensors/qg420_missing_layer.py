"""QG420 missing-layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG420", "missing-layer", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """config.json counts more layers than the files hold.

    ## What it checks

    That at least one tensor of every layer from 0 to `num_hidden_layers` - 1 is stored, in the
    largest list of layers that is no vision, audio or draft tower.

    ## Why it matters

    vLLM builds what the config counts and asks only for unquantized models whether everything
    came. The parameters keep whatever was in memory: the server starts, then answers nonsense.

    ## Example

    ```
    "num_hidden_layers": 32
    model.layers.0 … model.layers.30       # nothing of model.layers.31
    ```

    ## Fix

    Correct `num_hidden_layers`, or upload the missing weight files.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader: `num_hidden_layers` too large and a lost layer both
      load without a word.

    ## Not checked

    Layers of other towers, and models that store their layers under an unusual name.
    """
    decoder = model.decoder
    if decoder is None:
        return
    for index in decoder.missing_layers():
        yield Fault(
            message=f"config.json counts {decoder.declared} layers, but of these layers no tensor "
            "is stored: vLLM builds them and leaves them uninitialised, so the server starts and "
            "answers nonsense.",
            module=f"{decoder.root}.{index}",
            expected=f"{decoder.declared} layers",
            found=f"{len(decoder.layers)} layers",
            fix="Correct num_hidden_layers, or upload the weight files that hold these layers.",
        )
