"""Joining equal faults into findings."""

from quantgate.findings import Fault, Outcome, Severity, brace, join, pattern_of


def joined(*faults: Fault):
    """Join with the metadata of some rule."""
    return join(
        faults,
        rule="QG401",
        name="bits-mismatch",
        severity=Severity.ERROR,
        outcome=Outcome.FAILS,
        docs="https://example.org",
    )


def test_numbers_become_stars() -> None:
    """Only whole components are numbers."""
    assert pattern_of("model.layers.12.mlp.experts.7.w1") == "model.layers.*.mlp.experts.*.w1"
    assert pattern_of("h.0.conv1d.2b") == "h.*.conv1d.2b"


def test_numbers_of_weight_files_become_stars() -> None:
    """39 of 40 missing files are one line; the number of files stays."""
    assert pattern_of("model-00002-of-00040.safetensors") == "model-*-of-00040.safetensors"
    assert pattern_of("model-00002.safetensors") == "model-00002.safetensors"


def test_equal_faults_become_one_finding() -> None:
    """48 layers are one line with a count and three examples."""
    faults = [Fault(message="m", module=f"layers.{i}.{s}_proj") for i in range(48) for s in "qk"]

    (finding,) = joined(*faults)

    assert finding.pattern == "layers.*.{q,k}_proj"
    assert finding.count == 96
    assert finding.examples == ("layers.0.q_proj", "layers.0.k_proj", "layers.1.q_proj")


def test_single_fault_keeps_its_name() -> None:
    """One module is named, not turned into a pattern."""
    (finding,) = joined(Fault(message="m", module="layers.3.up_proj"))

    assert (finding.pattern, finding.module) == ("layers.3.up_proj", "layers.3.up_proj")
    assert finding.examples == ()


def test_different_facts_stay_apart() -> None:
    """Another "found" is another finding; the worst comes first."""
    findings = joined(
        Fault(message="m", module="a.0.x", found="1", severity=Severity.INFO),
        Fault(message="m", module="a.1.x", found="2"),
    )

    assert [f.found for f in findings] == ["2", "1"]


def test_brace_over_several_parents() -> None:
    """Parents are listed, too many of them are counted."""
    assert brace(["a.q_proj", "a.k_proj", "b.o_proj"]) == "a.{q,k}_proj, b.o_proj"
    assert brace([f"p{i}.x" for i in range(6)]) == "p0.x, p1.x, p2.x, p3.x, and 2 more"
    assert brace(["q_proj", "k"]) == "{q_proj,k}"
