"""QG201 missing-weight-file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.names import leads_out
from quantgate.findings import Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG201", "missing-weight-file")
def check(model: Model) -> Iterator[Fault]:
    """The index names a weight file that is not there.

    ## What it checks

    Every file name in the `weight_map` of the index against the folder. vLLM looks only at
    `*.safetensors` in the folder itself: a file in a sub-folder, or one with another ending, is
    missing to it.

    ## Why it matters

    vLLM 0.32.0 stops with `FileNotFoundError: Weight files referenced in index but missing`.
    Releases before 2026 loaded the rest without a word, since completeness is not checked for
    quantized models, and answered nonsense.

    ## Example

    ```
    model.safetensors.index.json: "model.layers.35.mlp.down_proj.weight_packed":
                                  "model-00002-of-00002.safetensors"
    folder:                       model-00001-of-00002.safetensors
    ```

    ## Fix

    Upload the missing file (or fetch it with Git LFS), or write the index again for the files
    that are there.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/34859
    - https://github.com/vllm-project/vllm/pull/34930

    ## Not checked

    A folder without any weight file (QG207), and an index that vLLM does not read: beside
    `consolidated*.safetensors`, or under another name.
    """
    checkpoint = model.checkpoint
    index = checkpoint.used_index
    if index is None or not checkpoint.files:
        return
    present = {f.name for f in checkpoint.consolidated or checkpoint.files}
    for name in sorted(set(index.weight_map.values()) - present):
        if not leads_out(name):
            yield Fault(
                message="The index names a weight file that is not in the folder: vLLM stops with "
                "`FileNotFoundError: Weight files referenced in index but missing`.",
                tensor=name,
                expected="in the folder",
                found="only in the index",
                fix="Upload the file, or write the index again for the files that are there.",
            )
