"""QG204 file-not-in-index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault, Outcome, Severity, pattern_of
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.checkpoint import Tensor
    from quantgate.model import Model

_ENDS = ("lm_head.weight", "norm.weight", "embed_tokens.weight")


@rule("QG204", "file-not-in-index", outcome=Outcome.SILENT)
def check(model: Model) -> Iterator[Fault]:
    """A weight file that the index does not name.

    ## What it checks

    Weight files in the folder that no entry of the `weight_map` leads to, and whether they hold
    tensors that no loaded file has. Tensors of the same kind as loaded ones (another layer,
    another expert) make it an error; those of another part (`mtp.`) a warning; an adapter, or a
    copy of what is loaded anyway, a note.

    ## Why it matters

    vLLM skips every file that the index does not name, without a message. Completeness is not
    checked for quantized models, so the layers in that file keep uninitialised memory and the
    model answers nonsense. An index that names none of the files ends in `RuntimeError: Cannot
    find any model weights with`.

    ## Example

    ```
    model.safetensors.index.json names:  model-00001-of-00002.safetensors
    folder:                              model-00001-of-00002.safetensors
                                         model-00002-of-00002.safetensors    # skipped
    ```

    ## Fix

    Write the index again for all files. Delete files of an earlier export.

    ## Seen in

    Observed with vLLM 0.32.0's own loader (ten models, every one
    silently wrong); no public report of a model is known.

    ## Not checked

    Files beside `consolidated*.safetensors` (QG211), and files that could not be read (QG209).
    """
    checkpoint = model.checkpoint
    index = checkpoint.used_index
    if index is None or index.error:
        return
    loaded = {f.name for f in checkpoint.loaded_files}
    if not loaded and checkpoint.files:
        yield Fault(
            message="The index names none of the weight files in the folder, and vLLM reads no "
            "other: `RuntimeError: Cannot find any model weights with ...`, or "
            "`FileNotFoundError: Weight files referenced in index but missing`.",
            tensor=index.name,
            fix="Write the index again for the files that are there, or delete it: without an "
            "index vLLM reads every file.",
            outcome=Outcome.FAILS,
        )
        return
    known = checkpoint.tensors.keys() | index.weight_map.keys()
    files = checkpoint.consolidated or checkpoint.files
    skipped = {f.name: f.header.tensors for f in files if f.name not in loaded and f.header}
    kinds = {pattern_of(name) for name in known} if skipped else set()
    for name, tensors in skipped.items():
        yield _fault(name, [t for t in tensors if t.name not in known], kinds)


def _fault(file: str, own: list[Tensor], kinds: set[str]) -> Fault:
    """What it means that vLLM skips the file; `own` are its tensors that no other file has."""
    message = "The index does not name this weight file, so vLLM skips it without a word"
    if not own:
        return Fault(
            message=f"{message}. All its tensors are in files that are loaded.",
            tensor=file,
            fix="Delete the file, or name it in the index.",
            severity=Severity.INFO,
            outcome=Outcome.COSMETIC,
        )
    if all("lora_" in t.name for t in own):
        return Fault(
            message=f"{message}. It is a LoRA adapter, which vLLM loads only when asked to.",
            tensor=file,
            fix="Nothing, if the adapter is meant to be optional.",
            severity=Severity.INFO,
            outcome=Outcome.COSMETIC,
        )
    roots = {kind.partition(".")[0] for kind in kinds}
    sure = any(pattern_of(t.name) in kinds for t in own)
    likely = any(t.name.partition(".")[0] in roots or t.name.endswith(_ENDS) for t in own)
    needed = sure or likely
    return Fault(
        message=f"{message}, and a quantized model keeps uninitialised memory where its tensors "
        "belong."
        if needed
        else f"{message}. Its tensors are of another part than those that are loaded (a draft "
        "model, say): where that part is used, it stays uninitialised.",
        tensor=file,
        expected="every weight file in the index",
        found=f"{len(own)} tensors in this file only",
        fix="Write the index again for all files, or delete the file if nothing needs it.",
        severity=Severity.ERROR if needed else Severity.WARNING,
        outcome=Outcome.SILENT if needed else Outcome.CONDITIONAL,
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY,
    )
