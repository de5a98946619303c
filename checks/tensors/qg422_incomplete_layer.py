"""QG422 incomplete-layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault, Outcome
from quantgate.rules import rule
from quantgate.vllm.completeness import lacking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG422", "incomplete-layer", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """A layer lacks a module that vLLM builds, or that the other layers of its kind have.

    ## What it checks

    The modules of each decoder layer against those that vLLM builds for the architecture, where
    that is known, and against those of the layers of the same kind: the same entry of the config's
    `layer_types`, the same blocks, dense or sparse. Experts count once. A module that is fused on
    disk counts as its projections. `input_layernorm` is asked of every layer.

    ## Why it matters

    vLLM builds what the config counts and asks only for unquantized models whether everything
    came. The parameters keep whatever was in memory: the server starts, then answers nonsense.

    ## Example

    ```
    model.layers.0.post_attention_layernorm.weight
    model.layers.1.post_attention_layernorm.weight
                                                     # nothing in model.layers.2
    ```

    ## Fix

    Export again; the module was lost when the files were split or renamed.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/57108 (vLLM does not ask whether a
      quantized checkpoint is complete; the report is about lost scales)

    ## Not checked

    What every layer of a kind lacks, and a layer that is the only one of its kind, for
    architectures of which it is not known what vLLM builds.
    """
    decoder = model.decoder
    if decoder is None:
        return
    built = lacking(model.built, decoder, model.modules) if model.built else {}
    peers = decoder.missing_modules()
    for index in sorted(built.keys() | peers.keys()):
        certain = set(built.get(index, ()))
        for name in sorted(certain | set(peers.get(index, ()))):
            why = "vLLM builds" if name in certain else "The other layers of this kind have"
            yield Fault(
                message=f"{why} these modules, and here no tensor of them is stored: vLLM leaves "
                "them uninitialised, so the server starts and answers nonsense.",
                module=f"{decoder.root}.{index}.{name}",
                expected="stored" if name in certain else "stored, as in the other layers",
                found="absent",
                fix="Export again, or upload the weight file that holds them.",
                confidence=Confidence.CERTAIN if name in certain else Confidence.LIKELY,
            )
