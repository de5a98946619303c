"""QG608 release-without-facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgate.findings import Fault, Outcome, Severity
from quantgate.rules import rule
from quantgate.vllm.facts import nearest, releases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quantgate.model import Model


@rule(
    "QG608",
    "release-without-facts",
    severity=Severity.INFO,
    outcome=Outcome.COSMETIC,
    per_target=True,
)
def check(model: Model) -> Iterator[Fault]:
    """The target names a vLLM release whose source quantgate has not read.

    ## What it checks

    Whether the facts of the release itself are there: its architectures, names and methods.

    ## Why it matters

    For a release between two others, or newer than all, those of the nearest older one are used,
    for one older than all those of the oldest. What changed in between is not seen.

    ## Example

    ```
    --target vllm=0.31.0      # the facts of 0.30.0 are used
    ```

    ## Fix

    Name a release that was read, or add its facts (`tools/README.md`).

    ## Seen in

    Nothing that vLLM does: a limit of quantgate.

    ## Not checked

    How much the two releases differ.
    """
    release = model.target.release
    known = nearest(release)
    if known.release == release:
        return
    older = model.target.version < known.version
    yield Fault(
        message=f"The facts of vLLM {known.release} stand in for those of {release}"
        + (", which is older than all that were read." if older else "."),
        tensor="release",
        expected=", ".join(releases()),
        found=release,
        fix=f"Nothing, if you trust that vLLM {release} names and matches as {known.release} does.",
        severity=Severity.WARNING if older else Severity.INFO,
        outcome=Outcome.CONDITIONAL if older else Outcome.COSMETIC,
    )
