"""QG426 missing-from-base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG426", "missing-from-base", outcome=Outcome.SILENT, of_absence=True)
def check(model: Model) -> Iterator[Fault]:
    """A module of the base model is not stored in the quantized one.

    ## What it checks

    With a base model (`--base`, or `base_model` in the model card where it can be read): that
    every module that owns a tensor there owns one here, in the names that vLLM gives them.

    ## Why it matters

    vLLM asks only for unquantized models whether everything came. The parameters of a lost module
    keep whatever was in memory: the server starts, then answers nonsense.

    ## Example

    ```
    base:   model.layers.0.self_attn.q_norm.weight
    model:                                            # nothing
    ```

    ## Fix

    Export again; the module was lost on the way.

    ## Seen in

    - https://github.com/vllm-project/vllm/issues/57108 (vLLM does not ask whether a
      quantized checkpoint is complete; the report is about lost scales)

    ## Not checked

    A base model of which less than half of the modules are here: then it is another model, or
    names its modules in another way.
    """
    base = model.base_model
    if base is None or not base.usable:
        return
    for module in base.missing:
        yield Fault(
            message="The base model has these modules and no tensor of them is stored here: vLLM "
            "leaves them uninitialised, so the server starts and answers nonsense.",
            module=module,
            expected="stored, as in the base model",
            found="absent",
            fix="Export again, or upload the weight file that holds them.",
        )
