"""Every rule against its cases, and every rule's page, cases and name against the conventions."""

import re
from pathlib import Path

import pytest

from quantgate.checkpoint.base import open_base
from quantgate.checkpoint.sources import open_checkpoint
from quantgate.findings import HEADERS, Finding, Severity
from quantgate.rules import SECTIONS, Rule, all_rules, find_rule, rules_of
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from tests.support.cases import FOLDER, KINDS, Case, all_cases, load_cases, write_base, write_case

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_case(case: Case, tmp_path: Path) -> None:
    """A rule says what its case expects and nothing else."""
    folder = str(write_case(case, tmp_path / "model"))
    checkpoint = open_checkpoint(folder, scalars="values" in case.spec)
    target = Target.parse(case.spec.get("target", ""))

    base = write_base(case, tmp_path / "base")

    findings = check_checkpoint(checkpoint, [target], base=open_base(base, checkpoint)).findings

    own = [f for f in findings if f.rule == case.rule]
    if case.kind in {"fail", "real"}:
        expected = case.spec["findings"]
        assert len(own) == len(expected), _shown(findings)
        for finding, wanted in zip(own, expected, strict=True):
            _compare(finding, wanted)
    else:
        assert own == [], _shown(own)
    if case.kind == "pass":
        assert [f for f in findings if f.severity is not Severity.INFO] == [], _shown(findings)


def _compare(finding: Finding, wanted: dict[str, object]) -> None:
    for key, value in wanted.items():
        actual = getattr(finding, key)
        if key in {"message", "fix", "expected", "found"}:
            assert str(value) in actual, f"{key}: {actual}"
        elif key == "patch":
            assert list(actual) == value
        else:
            assert actual == value, f"{key}: {actual!r} is not {value!r}"


def _shown(findings: object) -> str:
    return "\n".join(
        f"{f.rule} {f.severity} {f.pattern} x{f.count}: {f.message} [{f.expected} | {f.found}]"
        for f in findings  # type: ignore[attr-defined]
    )


@pytest.mark.parametrize("rule", all_rules(), ids=lambda r: r.id)
class TestConventions:
    """What every rule owes its readers."""

    def test_has_every_kind_of_case(self, rule: Rule) -> None:
        """A rule has a failing case, its repaired twin, a near miss and a real one."""
        if rule.tier != HEADERS:
            pytest.skip("has cases of its own in tests/dry_load/test_rules.py")
        kinds = {case.kind for case in load_cases(FOLDER / f"{rule.id}.yaml")}

        assert kinds == set(KINDS)

    def test_page_has_the_sections_in_order(self, rule: Rule) -> None:
        """A rule's docstring is its documentation page."""
        headings = tuple(re.findall(r"^## (.+)$", rule.page, re.M))

        assert headings == SECTIONS
        assert rule.summary.endswith(".")

    def test_file_is_found_from_the_id(self, rule: Rule) -> None:
        """QG401 lies in checks/tensors/qg401_….py, named after the rule."""
        name = f"{rule.id.lower()}_{rule.name.replace('-', '_')}.py"
        areas = ("container", "files", "config", "tensors", "names", "engine", "load")

        assert (ROOT / "checks" / areas[int(rule.id[2]) - 1] / name).is_file()

    def test_is_found_by_id_and_name(self, rule: Rule) -> None:
        """Both spellings lead to the rule."""
        assert find_rule(rule.id.lower()) is rule
        assert find_rule(rule.name) is rule


def test_no_case_without_a_rule() -> None:
    """Every case file belongs to a rule that exists."""
    assert {p.stem for p in FOLDER.glob("QG*.yaml")} == {r.id for r in rules_of(HEADERS)}
