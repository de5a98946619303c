"""QG212 base-not-consulted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule("QG212", "base-not-consulted", severity=Severity.INFO, outcome=Outcome.COSMETIC)
def check(model: Model) -> Iterator[Fault]:
    """A base model was asked for as a witness and could not be one.

    ## What it checks

    With `--base auto`: whether the model card names one base model, and whether it could be read.
    With any base: whether at least half of its modules are here under the names that vLLM gives
    them.

    ## Why it matters

    The base model's headers say how large every module is and which modules must exist. Without
    them a wrong `bits` or a lost module of an unknown architecture can go unnoticed. It says
    nothing against the model: the verdict stays what it is without the base.

    ## Example

    ```
    README.md
    ---
    base_model: ../original        # a path, and no id of a Hub repository
    ---
    ```

    ## Fix

    Name the model with `--base SOURCE`, or write its Hub id into the card.

    ## Seen in

    - https://github.com/huggingface/transformers/issues/33922 (a card with a path as its base)

    ## Not checked

    Whether the card tells the truth. Fine-tuned, merged and adapted models are not compared with
    the base of their card.
    """
    if model.base is None:
        return
    found = model.base_model
    if model.base.problem:
        reason = model.base.problem
    elif found is not None and not found.usable:
        reason = f"only {found.overlap:.0%} of its modules are stored here under such names"
    else:
        return
    by = "the model card" if model.base.from_card else "--base"
    yield Fault(
        message="The base model was not consulted, so neither sizes nor modules were held against "
        "it. What the files themselves show was checked as ever.",
        tensor="README.md" if model.base.from_card else "",
        expected=f"a base model, named by {by}",
        found=f"{model.base.name}: {reason}" if model.base.name else reason,
        fix="Name the model with --base, or correct base_model in the model card.",
    )
