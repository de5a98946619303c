"""QG434 torchao-metadata-missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault
from quantgate.quantization.torchao_metadata import CLASSES
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG434", "torchao-metadata-missing", methods=["torchao"])
def check(model: Model) -> Iterator[Fault]:
    """A weight file of a torchao model does not say what its tensors are parts of.

    ## What it checks

    The `__metadata__` of every weight file: `tensor_names`, and for each name an entry whose
    `_type` is a class that torchao puts together again (or `Tensor`).

    ## Why it matters

    torchao stores a quantized weight in parts and its class in the metadata. vLLM reads each file
    of such a model through that, also a file with nothing quantized in it, and stops where it is
    missing: `ValueError: No tensors found`, `TypeError: the JSON object must be str, bytes or
    bytearray, not NoneType`, `Unsupported tensor type`. A tool that splits, merges or renames
    tensors usually drops it.

    ## Example

    ```
    model.safetensors  __metadata__: {"format": "pt"}
    model.layers.0.mlp.up_proj._weight_qdata  I8 [512, 256]
    ```

    ## Fix

    Save the model again with torchao or Transformers, which write the metadata.

    ## Seen in

    - Observed with the loader of vLLM 0.32.0 and torchao 0.18.0.

    ## Not checked

    A torchao older than 0.15 in the server, which cannot read such files at all.
    """
    for name, file in model.torchao_files.items():
        if file.error:
            what = "an entry" if file.tensor else "the metadata"
            yield Fault(
                message=f"In a weight file's header {what} of torchao is missing or of no use, and "
                f"vLLM stops: `{file.error}`.",
                tensor=file.tensor or name,
                expected=f"a _type of {', '.join(sorted(CLASSES))}"
                if file.tensor
                else "tensor_names and an entry for each",
                found="no such entry" if file.tensor else "neither",
                fix="Save the model again with torchao or Transformers, which write the metadata.",
            )
