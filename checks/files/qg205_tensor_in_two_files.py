"""QG205 tensor-in-two-files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault, Outcome, Severity
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.checkpoint import Tensor
    from quantgate.model import Model


@rule("QG205", "tensor-in-two-files")
def check(model: Model) -> Iterator[Fault]:
    """The same tensor is in two weight files that vLLM reads.

    ## What it checks

    Tensor names that occur in more than one of the loaded files. Different shapes or dtypes
    make it an error, equal ones a warning. The message says if the index means another copy
    than the one that wins.

    ## Why it matters

    vLLM reads every tensor of every file, in the natural order of the file names, and the last
    copy wins: the index has no say. If an earlier copy has another shape, the load stops with a
    bare `AssertionError`. The fastsafetensors loader refuses such a model: `key ... must be
    unique among files`. Most often files of an earlier export were left in the folder or linked
    into it.

    ## Example

    ```
    model-00039-of-00041.safetensors: ...experts.0.down_proj.qweight  I32 [128, 4096]
    model-00040-of-00041.safetensors: ...experts.0.down_proj.qweight  I32 [128, 4096]    # wins
    ```

    ## Fix

    Keep the tensor in one file and write the index again.

    ## Seen in

    - https://github.com/eugr/spark-vllm-docker/pull/134 (Intel/Qwen3.5-397B-A17B-int4-AutoRound)
    - https://github.com/syv-ai/qwen38-27b-rtx3090/pull/123

    ## Not checked

    Whether the copies hold the same values: only headers are read.
    """
    checkpoint = model.checkpoint
    index = checkpoint.used_index
    last: dict[str, Tensor] = {}
    for file in checkpoint.loaded_files:
        for tensor in file.header.tensors if file.header else ():
            earlier = last.get(tensor.name)
            last[tensor.name] = tensor
            if earlier is not None:
                meant = index.weight_map.get(tensor.name) if index else None
                yield _fault(earlier, tensor, meant)


def _fault(earlier: Tensor, later: Tensor, meant: str | None) -> Fault:
    """Two tensors of one name, in the order in which vLLM loads them."""
    files = f"{earlier.file}, {later.file}"
    fix = "Keep the tensor in one file, and write the index again."
    if earlier.shape != later.shape:
        return Fault(
            message="The tensor is in two files, with different shapes. vLLM loads both, one over "
            "the other, and stops at the one that does not fit (a bare `AssertionError`).",
            module=later.name,
            expected="in one file",
            found=f"{list(earlier.shape)} and {list(later.shape)} in {files}",
            fix=fix,
        )
    if earlier.dtype != later.dtype:
        return Fault(
            message="The tensor is in two files, with different dtypes. vLLM loads both, the last "
            "one wins and is cast without a word.",
            module=later.name,
            expected="in one file",
            found=f"{earlier.dtype} and {later.dtype} in {files}",
            fix=fix,
            outcome=Outcome.SILENT,
            confidence=Confidence.LIKELY,
        )
    aside = (
        f", although the index names {meant}" if meant is not None and meant != later.file else ""
    )
    return Fault(
        message=f"The tensor is in two files. vLLM loads both, and the last one wins{aside}; "
        "fastsafetensors refuses the model (`must be unique among files`).",
        module=later.name,
        expected="in one file",
        found=files,
        fix=fix,
        severity=Severity.WARNING,
        outcome=Outcome.CONDITIONAL,
    )
