"""QG203 tensor-not-in-index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG203", "tensor-not-in-index", severity=Severity.INFO, outcome=Outcome.COSMETIC)
def check(model: Model) -> Iterator[Fault]:
    """A weight file holds a tensor that the index does not name.

    ## What it checks

    Every tensor of the files that the index names against its `weight_map`.

    ## Why it matters

    vLLM uses the index only to choose files and reads every tensor in them, so the model loads.
    Tools that go by the index (partial downloads, other engines) miss the tensor, and a tensor
    that was replaced on purpose is still loaded.

    ## Example

    ```
    model-00001-of-00002.safetensors: model.layers.0.mlp.up_proj.weight_scale
    model.safetensors.index.json:     # has no such name
    ```

    ## Fix

    Write the index again from the headers.

    ## Seen in

    Observed with vLLM 0.32.0's own loader; no public report of a model is known.

    ## Not checked

    Whether the tensor is used: unexpected names have a rule of their own (QG5xx).
    """
    checkpoint = model.checkpoint
    index = checkpoint.used_index
    if index is None or index.error:
        return
    for tensor in checkpoint.tensors:
        if tensor not in index.weight_map:
            yield Fault(
                message="The file holds a tensor that the index does not name. vLLM loads it, "
                "because it reads every tensor of a file that the index names at all; tools that "
                "go by the index do not.",
                module=tensor,
                fix="Write the index again from the headers.",
            )
