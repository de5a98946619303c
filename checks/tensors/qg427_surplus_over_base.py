"""QG427 surplus-over-base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule(
    "QG427",
    "surplus-over-base",
    severity=Severity.WARNING,
    outcome=Outcome.CONDITIONAL,
)
def check(model: Model) -> Iterator[Fault]:
    """A module is stored that the base model does not have.

    ## What it checks

    With a base model (`--base`, or `base_model` in the model card where it can be read): that
    every module with a weight is one of the base model's, in the names that vLLM gives them.

    ## Why it matters

    vLLM stops at a name that its class does not have (`There is no module or parameter named …`).
    If the base model is not the direct one, a module may be there for a reason; hence a warning.

    ## Example

    ```
    base:   model.layers.0 … model.layers.31
    model:  model.layers.32.mlp.up_proj.weight
    ```

    ## Fix

    Remove the tensors, or name the right base model.

    ## Seen in

    - Observed with vLLM 0.32.0's own loader: a leftover adapter stops the load.

    ## Not checked

    A base model of which less than half of the modules are here.
    """
    base = model.base_model
    if base is None or not base.usable:
        return
    for module in base.surplus:
        yield Fault(
            message="The base model has no such module: unless the class has one, vLLM stops while "
            "loading (There is no module or parameter named …).",
            module=module,
            expected="a module of the base model",
            found="stored",
            fix="Remove these tensors, or name the right base model.",
        )
