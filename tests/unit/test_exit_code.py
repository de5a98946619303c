"""Exit codes follow the findings, and nothing turns what was not read into a pass."""

from __future__ import annotations

import pytest

from quantgate.exit_code import ExitCode, exit_code
from quantgate.findings import Confidence, Finding, Outcome, Severity, Verdict
from quantgate.report.model import ModelReport, Report
from quantgate.targets import Target

E, W, I = Severity.ERROR, Severity.WARNING, Severity.INFO  # noqa: E741


def finding(severity: Severity, *, unverified: bool = False) -> Finding:
    return Finding(
        rule="QG101",
        name="some-fault",
        severity=severity,
        outcome=Outcome.FAILS,
        confidence=Confidence.CERTAIN,
        module="",
        tensor="",
        pattern="",
        count=1,
        examples=(),
        expected="",
        found="",
        message="A fault.",
        fix="",
        patch=(),
        unverified=unverified,
        docs="",
    )


def report(*severities: Severity, verdict: Verdict = Verdict.PASS) -> Report:
    model = ModelReport("m", None, verdict, "", tuple(map(finding, severities)))
    return Report((Target(),), (model,))


@pytest.mark.parametrize(
    ("severities", "fail_on", "code"),
    [
        ((), E, 0),
        ((I, W), E, 0),
        ((W, E), E, 1),
        ((I, W), W, 1),
        ((E,), W, 1),
        ((I,), W, 0),
        ((E, W), None, 0),
    ],
)
def test_findings_at_or_above_the_threshold_fail(severities, fail_on, code):
    """The threshold is inclusive, and None never fails."""
    assert exit_code(report(*severities), fail_on) == code


@pytest.mark.parametrize("fail_on", [E, W, None])
def test_what_could_not_be_read_never_passes(fail_on):
    """An unread model is code 3 under every threshold, whether it has a finding or not."""
    unread = ModelReport("m", None, Verdict.UNVERIFIED, "")
    missing = ModelReport("n", None, Verdict.UNVERIFIED, "", (finding(E, unverified=True),))
    for model in (unread, missing):
        assert exit_code(Report((Target(),), (model,)), fail_on) is ExitCode.UNVERIFIED


def test_a_fault_outranks_what_could_not_be_read():
    """With both, the author has something to repair: code 1."""
    models = (
        ModelReport("m", None, Verdict.UNVERIFIED, ""),
        ModelReport("n", None, Verdict.FAIL, "", (finding(E),)),
    )
    assert exit_code(Report((Target(),), models)) is ExitCode.FINDINGS


def test_a_run_over_no_model_is_no_pass():
    """Nothing was verified."""
    assert exit_code(Report((Target(),), ())) is ExitCode.UNVERIFIED
