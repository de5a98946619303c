"""QG609 names-made-at-run-time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Confidence, Fault, Outcome, Severity
from quantgate.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule(
    "QG609",
    "names-made-at-run-time",
    severity=Severity.INFO,
    outcome=Outcome.CONDITIONAL,
    per_target=True,
)
def check(model: Model) -> Iterator[Fault]:
    """The release settles the names of this architecture only while it loads.

    ## What it checks

    Whether the target's release serves the architecture through its Transformers backend, whose
    names and fused projections come from the module graph at run time.

    ## Why it matters

    What targets and ignore lists hit cannot be read from vLLM's source then. quantgate takes the
    usual fusions (q, k, v and gate, up), so findings about names are a rule of thumb, and a clean
    report says less than for other architectures.

    ## Example

    ```
    "architectures": ["SmolLM3ForCausalLM"]
    ```

    ## Fix

    Nothing needs to change. A dry load or a smoke load settles it.

    ## Seen in

    - vLLM's own registry: 35 names of 0.33.0 lead to the Transformers backend.

    ## Not checked

    Which projections the backend fuses for a given model.
    """
    naming = model.naming
    if model.declaration is not None and naming.known and naming.open_mappings:
        yield Fault(
            message="vLLM serves this architecture through its Transformers backend, which makes "
            "names and fused projections while it loads: findings about names are a rule of "
            "thumb here.",
            tensor=naming.architecture,
            expected="names that vLLM's source settles",
            found="names made at run time",
            fix="Nothing needs to change.",
            confidence=Confidence.LIKELY,
        )
