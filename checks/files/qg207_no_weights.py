"""QG207 no-weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.checkpoint.names import foreign_format, is_pickle
from quantgate.findings import Fault
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.checkpoint import Checkpoint
    from quantgate.model import Model


@rule("QG207", "no-weights")
def check(model: Model) -> Iterator[Fault]:
    """The folder has no safetensors files.

    ## What it checks

    Whether there is any `*.safetensors` file, and if not, what there is instead: pickled
    PyTorch files (`*.bin`, `*.pt`), files of other formats (GGUF, MLX npz, ONNX ...), an index
    alone, or only configs.

    ## Why it matters

    vLLM looks for `*.safetensors`, then `*.bin`, then `*.pt`, and stops with `RuntimeError:
    Cannot find any model weights with` if there are none. Pickled files have no header: nothing
    of what the config declares can be held against them, so the model counts as unverified. So
    does a folder that holds configs and an index, whose weights live elsewhere: the tensor
    names are known, their shapes and dtypes are not.

    ## Example

    ```
    config.json
    model.safetensors.index.json    # 399 tensors in 4 files, none of them here
    ```

    ## Fix

    Add the weights as safetensors; fetch them first if they are stored elsewhere.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/2132
    - https://github.com/vllm-project/vllm/issues/7953

    ## Not checked

    Sub-folders: neither vLLM nor quantgate looks into them.
    """
    checkpoint = model.checkpoint
    if checkpoint.files:
        return
    others = checkpoint.other_files
    pickles = [name for name in others if is_pickle(name)]
    foreign = sorted({label for name in others if (label := foreign_format(name))})
    if pickles:
        yield Fault(
            message="The folder holds weights only as pickled PyTorch files. vLLM loads those, but "
            "what is in them cannot be seen without running them: nothing about the weights was "
            "verified.",
            tensor=pickles[0],
            expected="*.safetensors",
            found=_count(len(pickles), "*.bin or *.pt file"),
            fix="Convert the weights to safetensors.",
            unverified=True,
        )
    elif foreign:
        yield Fault(
            message="The folder holds no weights that vLLM loads from a folder: it looks for "
            "`*.safetensors`, `*.bin` and `*.pt`, and stops with `RuntimeError: Cannot find any "
            "model weights with`.",
            expected="*.safetensors",
            found=", ".join(foreign),
            fix="Add the weights as safetensors.",
        )
    else:
        yield Fault(
            message="The folder holds no weight files: vLLM would stop with `RuntimeError: Cannot "
            f"find any model weights with`. {_known(checkpoint)}",
            expected="*.safetensors",
            found="configs only" if checkpoint.index is None else "configs and an index",
            fix="Add the weight files, or check the model where they are.",
            unverified=True,
        )


def _known(checkpoint: Checkpoint) -> str:
    """What could and could not be verified without weights."""
    index = checkpoint.index
    if index is None or index.error:
        return "Only the config was checked; names, shapes and dtypes of the tensors are unknown."
    files = len(set(index.weight_map.values()))
    return (
        f"The index names {_count(len(index.weight_map), 'tensor')} in {_count(files, 'file')}; "
        "the config was checked, but no shape or dtype is known, nor whether the tensors exist."
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
