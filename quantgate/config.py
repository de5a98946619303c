"""`.github/quantgate.yml`: the inputs of the action as a file, with severities and exceptions.

```yaml
models: [models/*, org/model@0123abc]
targets: [vllm=0.33.0, "vllm=0.32.0,gpu=sm90"]
fail-on: error
rules:
  QG411: error            # another severity
suppress:
  - rule: QG207
    model: models/draft-*  # only these models; optional
    where: "*"             # only this place, as in the report; optional
    reason: Weights follow with the release.
```

What the file says about an input is read like the input itself, and an input that is given wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quantgate.checkpoint.documents import parse_yaml
from quantgate.checkpoint.model import Defect
from quantgate.findings import Severity
from quantgate.policy import Policy, Suppression
from quantgate.rules import find_rule
from quantgate.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = ".github/quantgate.yml"
LISTS = ("models", "targets")
TEXTS = ("manifest", "base", "fail-on", "comment")
KEYS = (*LISTS, *TEXTS, "rules", "suppress")


@dataclass(frozen=True, slots=True)
class Config:
    """What the file says.

    Attributes:
        inputs: Input name → text, as it would stand in the workflow.
        policy: Severities and exceptions.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)

    @property
    def models(self) -> tuple[str, ...]:
        """The lines of `models`."""
        return tuple(filter(None, map(str.strip, self.inputs.get("models", "").splitlines())))


def parse_config(text: str, path: str = PATH) -> Config:
    """Read the file.

    Raises:
        SettingsError: It is no YAML, or holds what it may not; all of that is named.
    """
    value = parse_yaml(text.encode(), unique=True)
    if isinstance(value, Defect):
        raise SettingsError(f"{path} {value.message}")
    if value is None:
        return Config()  # an empty file says nothing
    if not isinstance(value, dict):
        raise SettingsError(f"{path} is not a mapping of {', '.join(KEYS)}")
    problems: list[str] = []
    unknown = [k for k in value if k not in KEYS]
    if unknown:
        problems.append(f"{', '.join(map(repr, unknown))}: none of {', '.join(KEYS)}")
    config = Config(
        {k: _input(k, value[k], problems) for k in (*LISTS, *TEXTS) if value.get(k) is not None},
        Policy(
            _severities(value.get("rules"), problems),
            _suppressions(value.get("suppress"), problems),
        ),
    )
    if problems:
        raise SettingsError(*(f"{path}: {p}" for p in problems))
    return config


def _input(key: str, value: Any, problems: list[str]) -> str:
    items = value if key in LISTS and isinstance(value, list) else [value]
    if all(isinstance(i, str) and "\n" not in i for i in items):
        return "\n".join(items)
    problems.append(f"{key}: {'a list of texts' if key in LISTS else 'a text'} is needed")
    return ""


def _rule(value: Any, problems: list[str]) -> str:
    rule = find_rule(value) if isinstance(value, str) else None
    if rule is None:
        problems.append(f"no such rule: {value!r}")
        return ""
    return rule.id


def _severities(value: Any, problems: list[str]) -> dict[str, Severity]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        problems.append("rules: a mapping of rules to severities is needed")
        return {}
    severities: dict[str, Severity] = {}
    for key, text in value.items():
        rule = _rule(key, problems)
        try:
            severities[rule] = Severity(text)
        except ValueError:
            problems.append(
                f"rules: {key}: {text!r} is none of {', '.join(Severity)}; "
                "to leave findings out, give a reason under suppress"
            )
    return severities


def _suppressions(value: Any, problems: list[str]) -> tuple[Suppression, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        problems.append("suppress: a list is needed")
        return ()
    found = []
    for number, item in enumerate(value, start=1):
        place = f"suppress: entry {number}"
        allowed = {"rule", "reason", "model", "where"}
        if not isinstance(item, dict) or not item.keys() <= allowed:
            problems.append(f"{place}: a mapping of rule, reason, model and where is needed")
            continue
        if not all(isinstance(v, str) and v.strip() for v in item.values()):
            problems.append(f"{place}: rule, reason, model and where are texts")
            continue
        reason = " ".join(item.get("reason", "").split())
        if not reason:
            problems.append(f"{place}: a reason is needed")
            continue
        rule = _rule(item.get("rule"), problems)
        if not reason.endswith((".", "!", "?")):
            reason += "."
        patterns = {k: item[k] for k in ("model", "where") if k in item}
        found.append(Suppression(rule=rule, reason=reason, **patterns))
    return tuple(found)
