"""QG202 index-names-absent-tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault, Outcome, Severity
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

_UNUSED = ("rotary_emb.inv_freq", ".weight_shape", ".g_idx", ".masked_bias")


@rule("QG202", "index-names-absent-tensor", outcome=Outcome.SILENT)
def check(model: Model) -> Iterator[Fault]:
    """The index names a tensor that is not in the file.

    ## What it checks

    Every tensor name in the `weight_map` of the index against the header of the file it names.

    ## Why it matters

    vLLM takes only the file names from the index and never compares the tensor names with the
    headers. It checks completeness only for unquantized models: here the parameter keeps
    uninitialised memory, the server looks healthy and answers nonsense, and nothing is logged.
    The index is the last witness of what the export meant to write.

    ## Example

    ```
    model.safetensors.index.json: "layers.0.attn.wo_a.scale": "model-00001-of-00046.safetensors"
    model-00001-of-00046.safetensors: layers.0.attn.wo_a.weight    # no scale
    ```

    ## Fix

    Export the tensor again. If it was removed on purpose, write the index again from the
    headers.

    ## Seen in

    - https://github.com/vllm-project/vllm/pull/57108
    - https://github.com/ModelCloud/GPTQModel/pull/3077

    ## Not checked

    Files that are missing (QG201) or could not be read (QG209). Tensors that the index does not
    name either: those that the declaration asks for have rules of their own (QG4xx).
    """
    checkpoint = model.checkpoint
    index = checkpoint.used_index
    if index is None:
        return
    stored = {f.name: {t.name for t in f.header.tensors} for f in checkpoint.files if f.header}
    unread = {f.name for f in checkpoint.loaded_files if f.header is None}
    for tensor, file in index.weight_map.items():
        if file not in stored or tensor in stored[file]:
            continue
        if tensor in checkpoint.tensors:
            yield Fault(
                message="The index names another file than the one this tensor is in. vLLM loads "
                "it all the same, since it takes only file names from the index.",
                module=tensor,
                fix="Write the index again from the headers.",
                severity=Severity.INFO,
                outcome=Outcome.COSMETIC,
            )
        elif _is_needed(model, tensor):
            yield Fault(
                message="The index names a tensor that is in none of the files: vLLM never "
                "compares the two, and a quantized model loads with uninitialised memory in its "
                "place.",
                module=tensor,
                expected="in the file that the index names",
                found="in no file" if not unread else "in no file that could be read",
                fix="Export the tensor again, or, if the model does not need it, drop it from the "
                "index.",
                confidence=Confidence.LIKELY if unread else Confidence.CERTAIN,
            )
        else:
            yield Fault(
                message="The index names a tensor that is in none of the files. vLLM does not "
                "need it for this model.",
                module=tensor,
                fix="Write the index again from the headers.",
                severity=Severity.INFO,
                outcome=Outcome.COSMETIC,
            )


def _is_needed(model: Model, tensor: str) -> bool:
    """Whether vLLM would read the tensor: not of tied embeddings, nor what a method leaves out."""
    if tensor.endswith(_UNUSED):
        return False
    config = model.checkpoint.config
    if tensor == "lm_head.weight" and config.get("tie_word_embeddings") is True:
        return False
    declaration = model.declaration
    symmetric = declaration is not None and declaration.raw.get("sym") is not False
    is_gptq = declaration is not None and declaration.method == "gptq"
    return not (tensor.endswith(".qzeros") and is_gptq and symmetric)
