"""The register of rules: what a rule is, how to find one, how its page is read from its docstring.

A rule is a function in its own file under `checks/<area>/`, marked with `@rule`. It gets what its
tier knows of a model (a `Model`, or a `DryLoad`), does no I/O, never raises for a bad model and
yields `Fault`s.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from quantgate.findings import HEADERS, Fault, Finding, Outcome, Severity, join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DOCS_URL = "https://github.com/quantgate/quantgate/blob/main/docs/rules/{id}.md"
SECTIONS = ("What it checks", "Why it matters", "Example", "Fix", "Seen in", "Not checked")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and its metadata.

    Attributes:
        id: `QG` and three digits; the first digit is the area. Never reused.
        name: Kebab-case, names the fault, reads right after "ignore".
        severity: Default for its faults.
        outcome: Default for its faults.
        since: The quantgate release that brought it.
        methods: Quantization methods it speaks of; empty means all.
        per_target: Whether its answer depends on the vLLM release, GPU or tensor-parallel size.
        of_absence: Whether it speaks of what is not there: it is silent while a weight file that
            vLLM reads was not read, since what it misses may be in that file.
        tier: The tier whose answer it judges.
    """

    id: str
    name: str
    severity: Severity
    outcome: Outcome
    since: str
    methods: frozenset[str]
    per_target: bool
    of_absence: bool
    check: Callable[[Any], Iterable[Fault]]
    tier: str = HEADERS

    @property
    def of_files(self) -> bool:
        """Whether it is about the files alone, which every release reads alike (QG1xx, QG2xx)."""
        return self.id[2] in "12"

    @property
    def docs(self) -> str:
        """Address of its documentation page."""
        return DOCS_URL.format(id=self.id)

    @property
    def page(self) -> str:
        """Its docstring: a summary sentence, then the sections of `SECTIONS`."""
        return inspect.cleandoc(self.check.__doc__ or "")

    @property
    def summary(self) -> str:
        """The first sentence of its page."""
        return self.page.partition("\n\n")[0].replace("\n", " ")

    def run(self, known: Any) -> list[Finding]:
        """Apply the rule to what its tier knows of a model, and join what it yields."""
        return join(
            self.check(known),
            rule=self.id,
            name=self.name,
            severity=self.severity,
            outcome=self.outcome,
            docs=self.docs,
            tier=self.tier,
        )


_Known = TypeVar("_Known")
_registry: dict[str, Rule] = {}
_ID = re.compile(r"QG\d{3}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def rule(
    id: str,  # noqa: A002
    name: str,
    *,
    severity: Severity = Severity.ERROR,
    outcome: Outcome = Outcome.FAILS,
    since: str = "0.1.0",
    methods: Iterable[str] = (),
    per_target: bool = False,
    of_absence: bool = False,
    tier: str = HEADERS,
) -> Callable[[Callable[[_Known], Iterator[Fault]]], Callable[[_Known], Iterator[Fault]]]:
    """Register the decorated function as a rule.

    Raises:
        ValueError: The id or name is malformed or taken.
    """

    def register(
        check: Callable[[_Known], Iterator[Fault]],
    ) -> Callable[[_Known], Iterator[Fault]]:
        if not _ID.fullmatch(id) or not _NAME.fullmatch(name):
            raise ValueError(f"{id} {name}: an id is QG and three digits, a name is kebab-case")
        if id in _registry or any(r.name == name for r in _registry.values()):
            raise ValueError(f"{id} {name}: id or name is taken")
        _registry[id] = Rule(
            id,
            name,
            severity,
            outcome,
            since,
            frozenset(methods),
            per_target,
            of_absence,
            check,
            tier,
        )
        return check

    return register


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule under `checks/`, in the order of the ids."""
    checks = importlib.import_module("checks")
    for area in pkgutil.iter_modules(checks.__path__, "checks."):
        package = importlib.import_module(area.name)
        for module in pkgutil.iter_modules(package.__path__, f"{area.name}."):
            importlib.import_module(module.name)
    return tuple(_registry[i] for i in sorted(_registry))


def rules_of(tier: str) -> tuple[Rule, ...]:
    """The rules that judge this tier's answer."""
    return tuple(r for r in all_rules() if r.tier == tier)


def find_rule(id_or_name: str) -> Rule | None:
    """The rule with this id (any case) or name."""
    wanted = id_or_name.strip()
    return next((r for r in all_rules() if wanted.upper() == r.id or wanted == r.name), None)
