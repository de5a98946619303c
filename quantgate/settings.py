"""The action's inputs, read from the environment and checked before anything else happens.

The runner hands the input `fail-on` to a Docker action as the variable `INPUT_FAIL-ON`, and an
input that was not given as an empty one. Defaults live here and nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from quantgate.checkpoint.base import NONE
from quantgate.checkpoint.lfs_mode import Lfs
from quantgate.findings import TIERS, Severity
from quantgate.rules import find_rule
from quantgate.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FAIL_ON: Mapping[str, Severity | None] = {
    "error": Severity.ERROR,
    "warning": Severity.WARNING,
    "never": None,
}


# It becomes a part of an HTML comment, which ends with `--`.
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
# GitHub: a matrix makes at most 256 jobs.
MAX_JOBS = 256
# A job on a hosted runner ends after six hours.
MAX_MINUTES = 300


class Comment(StrEnum):
    """When there is a comment on the pull request: `on-failure` keeps up one that is there."""

    ON_FAILURE = "on-failure"
    ALWAYS = "always"
    NEVER = "never"


class SettingsError(ValueError):
    """The inputs cannot be used; `problems` holds one sentence for each bad one."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One field per input of action.yml; `fail_on` is the input `fail-on`.

    Attributes:
        models: Model folders, header archives, patterns or Hub ids; empty means: find the folders
            in the checkout, unless there is a manifest.
        manifest: A file of the repository that lists models; `manifest.split_manifest` reads it.
        config: The file of the repository with inputs, severities and exceptions.
        all: Whether to check every model, changed or not.
        fail_on: The least severity that fails the job, None for never.
        targets: The engines to check against, at least one.
        select: Ids of the only rules to apply; empty means all.
        ignore: Ids of rules to leave out.
        base: The model that was quantized: a source, `auto` for the model card's, or `none`.
        lfs: Whether to look up Git LFS pointers.
        comment: When to write a comment on the pull request.
        reports: JSON reports of earlier jobs to publish, instead of checking.
        expect_tiers: With reports, the tiers that every model must have been through.
        await_job: With reports, the job that a runner has to take first; then they are left alone.
        await_minutes: How long that is waited for.
        plan: How many jobs to spread the models over, instead of checking; 0 for none.
        fork_environment: With a plan, the environment whose reviewers let strangers' models run.
        base_report: JSON report of the base of the change, of the repository; empty for none.
        template: Jinja template of the repository for the comment and the summary; empty for ours.
        comment_key: Which of several comments of one pull request is this gate's.
        github_token: What the API is asked with; empty is anonymous.
        hf_token: What the Hugging Face Hub is asked with; empty is anonymous.
        report_path: Folder for the report files; empty means one in the runner's temporary folder.
    """

    models: tuple[str, ...] = ()
    manifest: str = ""
    config: str = ".github/quantgate.yml"
    all: bool = False
    fail_on: Severity | None = Severity.ERROR
    targets: tuple[Target, ...] = (Target(),)
    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    base: str = NONE
    lfs: Lfs = Lfs.AUTO
    comment: Comment = Comment.ON_FAILURE
    comment_key: str = ""
    reports: tuple[str, ...] = ()
    expect_tiers: tuple[str, ...] = ()
    await_job: str = ""
    await_minutes: int = 30
    plan: int = 0
    fork_environment: str = ""
    base_report: str = ""
    template: str = ""
    github_token: str = field(default="", repr=False)
    hf_token: str = field(default="", repr=False)
    report_path: str = ""

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], file: Mapping[str, str] | None = None, path: str = ""
    ) -> Self:
        """Read every input.

        Args:
            environ: The variables that the runner sets.
            file: Texts for inputs that are not given, from the config file.
            path: Name of that file, for messages.

        Raises:
            SettingsError: At least one value is not allowed; all of them are named.
        """
        values, problems = cls._read(environ, file or {}, path)
        if problems:
            raise SettingsError(*problems)
        return cls(**values)

    @classmethod
    def usable(cls, environ: Mapping[str, str]) -> Self:
        """What can be read of the inputs; one with a bad value is as if it were not given."""
        return cls(**cls._read(environ, {}, "")[0])

    @classmethod
    def _read(
        cls, environ: Mapping[str, str], file: Mapping[str, str], path: str
    ) -> tuple[dict[str, Any], list[str]]:
        values: dict[str, Any] = {}
        problems: list[str] = []
        for item in fields(cls):
            name = input_name(item.name)
            text, place = environ.get(f"INPUT_{name.upper()}", "").strip(), f"input {name}"
            if not text:
                text, place = file.get(name, "").strip(), f"{path}: {name}"
            if not text:
                continue
            try:
                values[item.name] = _READERS[item.name](text)
            except ValueError as error:
                problems.append(f"{place}: {error}")
        return values, problems


def input_name(field: str) -> str:
    """`fail_on` → `fail-on`."""
    return field.replace("_", "-")


def _lines(text: str) -> tuple[str, ...]:
    """The lines that say something, each once, in order."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.splitlines()))))


def _fail_on(text: str) -> Severity | None:
    try:
        return FAIL_ON[text.lower()]
    except KeyError:
        raise ValueError(f"{text!r} is none of {', '.join(FAIL_ON)}") from None


def _targets(text: str) -> tuple[Target, ...]:
    return tuple(dict.fromkeys(map(Target.parse, _lines(text))))


def _rules(text: str) -> frozenset[str]:
    """Ids of the rules, which may be written as ids or names, with commas or spaces between."""
    words = text.replace(",", " ").split()
    found = {word: find_rule(word) for word in words}
    unknown = [word for word, rule in found.items() if rule is None]
    if unknown:
        raise ValueError(f"no such rule: {', '.join(map(repr, unknown))}")
    return frozenset(rule.id for rule in found.values() if rule)


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} is not a path")
    return text


def _switch(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(f"{text!r} is none of true, false")
    return text.lower() == "true"


def _comment(text: str) -> Comment:
    try:
        return Comment(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is none of {', '.join(Comment)}") from None


def _tiers(text: str) -> tuple[str, ...]:
    words = text.replace(",", " ").split()
    unknown = [word for word in words if word not in TIERS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(TIERS)}")
    return tuple(dict.fromkeys(words))


def _lfs(text: str) -> Lfs:
    try:
        return Lfs(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is none of {', '.join(Lfs)}") from None


def _comment_key(text: str) -> str:
    if not _KEY.fullmatch(text) or "--" in text:
        raise ValueError(f"{text!r} is not a word of letters, digits, '.', '_' and single '-'")
    return text


def _jobs(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_JOBS:
        raise ValueError(f"{text!r} is not a number from 1 to {MAX_JOBS}")
    return int(text)


def _minutes(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_MINUTES:
        raise ValueError(f"{text!r} is not a number of minutes from 1 to {MAX_MINUTES}")
    return int(text)


def _name(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} is not a name")
    return text


def _token(text: str) -> str:
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("this is no token")  # which is not repeated here
    return text


def _source(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} is not auto, none or one source")
    return text


_READERS: Mapping[str, Callable[[str], object]] = {
    "models": _lines,
    "manifest": _one_line,
    "config": _one_line,
    "all": _switch,
    "fail_on": _fail_on,
    "targets": _targets,
    "select": _rules,
    "ignore": _rules,
    "base": _source,
    "lfs": _lfs,
    "comment": _comment,
    "comment_key": _comment_key,
    "reports": _lines,
    "expect_tiers": _tiers,
    "await_job": _name,
    "await_minutes": _minutes,
    "plan": _jobs,
    "fork_environment": _name,
    "base_report": _one_line,
    "template": _one_line,
    "github_token": _token,
    "hf_token": _token,
    "report_path": _one_line,
}
