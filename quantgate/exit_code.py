"""Exit codes, the same at a terminal and in a workflow."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from quantgate.findings import Severity, Verdict

if TYPE_CHECKING:
    from quantgate.report.model import Report


class ExitCode(IntEnum):
    """What the process says to whoever started it."""

    PASS = 0
    FINDINGS = 1  # at or above `fail-on`
    USAGE = 2  # an option or input that cannot be used
    UNVERIFIED = 3  # something could not be read: no finding, and no pass either
    INTERNAL = 4  # a fault of quantgate itself


def exit_code(report: Report, fail_on: Severity | None = Severity.ERROR) -> ExitCode:
    """The code for a finished check.

    Args:
        report: What was found.
        fail_on: The least severity that fails, None for none. A model that could not be read is
            not a finding, and stops the gate whatever is written here.
    """
    findings = (f for m in report.models for f in m.findings if not f.unverified)
    if fail_on is not None and any(f.severity.rank <= fail_on.rank for f in findings):
        return ExitCode.FINDINGS
    # A tier that ran vLLM may know of a fault that no rule has a name for.
    if fail_on is not None and any(
        t.verdict is Verdict.FAIL for m in report.models for t in m.tiers
    ):
        return ExitCode.FINDINGS
    if report.verdict is Verdict.UNVERIFIED or any(
        m.verdict is Verdict.UNVERIFIED for m in report.models
    ):
        return ExitCode.UNVERIFIED
    if any(f.unverified for m in report.models for f in m.findings):
        return ExitCode.UNVERIFIED
    return ExitCode.PASS
