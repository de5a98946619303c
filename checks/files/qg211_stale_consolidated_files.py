"""QG211 stale-consolidated-files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault, Outcome, Severity
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model

# They rename Mistral's tensors themselves (vLLM 0.33.0, models/llama.py, maybe_remap_mistral).
_RENAMING = frozenset({"LlamaForCausalLM", "MistralForCausalLM"})
_MISTRAL = (".attention.", ".feed_forward.", "tok_embeddings.")


@rule("QG211", "stale-consolidated-files")
def check(model: Model) -> Iterator[Fault]:
    """Consolidated weight files hide the others.

    ## What it checks

    Folders with `consolidated*.safetensors` and a config.json, but without the params.json that
    belongs to them. With params.json the folder is in order, and silent here.

    ## Why it matters

    Mistral publishes each model twice: as `consolidated*.safetensors` with params.json, and as
    split files with config.json. Load format `auto` prefers the first: if there is any such
    file, vLLM reads no other. Someone who quantizes or fine-tunes the split files and keeps the
    old consolidated file serves the old weights, or, where params.json is gone, gets `There is
    no module or parameter named 'layers'` (or `KeyError: 'layers.0.attention.wk.weight'`).

    ## Example

    ```
    config.json
    consolidated.safetensors            # read: layers.0.attention.wq.weight ...
    model-00001-of-00002.safetensors    # ignored
    model.safetensors.index.json        # ignored
    ```

    ## Fix

    Delete the consolidated files if the split files are the ones to serve; otherwise add
    params.json.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/40765
    - https://github.com/vllm-project/vllm/issues/4989

    ## Not checked

    Which of the two sets is the newer one.
    """
    checkpoint = model.checkpoint
    if not checkpoint.consolidated or "config.json" not in checkpoint.configs:
        return
    if "params.json" in checkpoint.configs:
        return
    names = checkpoint.tensors.keys()
    mistral = any(name.startswith(("layers.", *_MISTRAL)) for name in names)
    architectures = checkpoint.config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else None
    others = len(checkpoint.files) - len(checkpoint.consolidated)
    if mistral and not (isinstance(first, str) and first in _RENAMING):
        yield Fault(
            message="Beside `consolidated*.safetensors` vLLM reads no other weight file. They "
            "have Mistral's tensor names, but without params.json the model is built after "
            "config.json: `There is no module or parameter named ...`.",
            tensor=checkpoint.consolidated[0].name,
            expected="params.json, or no consolidated*.safetensors",
            found="config.json only",
            fix="Delete the consolidated files, or add the params.json that belongs to them.",
            confidence=Confidence.LIKELY,
        )
    elif others:
        yield Fault(
            message="Beside `consolidated*.safetensors` vLLM reads no other weight file: the "
            "other files, quantized or not, and their index are ignored.",
            tensor=checkpoint.consolidated[0].name,
            expected="one set of weight files",
            found=f"{others} more weight files, which are not read",
            fix="Delete the set that is not meant to be served.",
            severity=Severity.WARNING,
            outcome=Outcome.CONDITIONAL,
        )
