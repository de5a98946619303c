"""QG435 tensor-never-restored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.quantization.torchao_metadata import entries_of, losses
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

_BUFFERS = ("rotary_emb", "inv_freq")


@rule("QG435", "tensor-never-restored", methods=["torchao"])
def check(model: Model) -> Iterator[Fault]:
    """A tensor of a torchao model is never put together, and vLLM passes over it without a word.

    ## What it checks

    For every name in the files' `tensor_names`, that exactly the parts which its entry lists are
    stored; and that every stored tensor is one of the names or a part of one.

    ## Why it matters

    vLLM waits for the missing part, file after file, and never asks for the name again; a tensor
    that no name claims is dropped. The parameter keeps whatever the memory held, the server starts,
    and the model answers nonsense. A part too many does the same: the number is compared.

    ## Example

    ```
    tensor_names: [.., "model.layers.0.mlp.up_proj.weight"]    # parts: qdata, scale, zero_point
    model.layers.0.mlp.up_proj._weight_qdata       I8 [512, 256]
    model.layers.0.mlp.up_proj._weight_zero_point  I8 [512, 1]     # no _weight_scale
    ```

    ## Fix

    Save the model again; check whether a weight file or an index entry was lost.

    ## Seen in

    - Observed with the loader of vLLM 0.32.0 and torchao 0.18.0.

    ## Not checked

    The order of the files: a part must not come before the file that names its tensor.
    """
    files = model.torchao_files
    if any(file.error for file in files.values()):
        return  # QG434; nothing is loaded
    for loss in losses(entries_of(files), model.checkpoint.tensors):
        if any(b in loss.tensor for b in _BUFFERS):
            continue
        yield Fault(
            message="The tensor is never put together from what the files hold. vLLM passes over "
            "it without a word, and the model answers nonsense.",
            tensor=loss.tensor,
            expected=loss.expected,
            found=loss.found,
            fix="Save the model again; check whether a weight file or an index entry was lost.",
            outcome=Outcome.SILENT,
        )
