"""What started the workflow: the event, its commits and its pull request, from the runner's files.

The payloads are those of docs.github.com, "Webhook events and payloads".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from quantgate.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PAYLOAD = 32 * 1024 * 1024
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")

PULL_REQUEST_TARGET = (
    "the event pull_request_target runs with the secrets of this repository, and the files of the "
    "pull request must not come near them; run the gate on pull_request, and let a second "
    "workflow on workflow_run write the comment for forks (docs/action.md has both)"
)
WORKFLOW_RUN = (
    "on workflow_run nothing is checked, because the job holds a token that may write; give the "
    "report of the first workflow with the input `reports`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event; what it does not have is empty.

    Attributes:
        name: As in `on:`.
        repository: `owner/name`.
        api: Address of the API, which is another one on GitHub Enterprise Server.
        base: The commit that the change is measured against.
        base_ref: The branch that it goes into.
        head: The commit that the change ends with.
        head_branch: `owner:branch`, where the change comes from.
        head_repository: `owner/name` that a pull request comes from, empty if it is gone.
        pull: Number of the pull request, 0 for none.
        run: Number of this workflow run, 0 for none.
        run_of: The event that started the first workflow, on `workflow_run`.
        conclusion: How the first workflow ended, on `workflow_run`.
    """

    name: str = ""
    repository: str = ""
    api: str = "https://api.github.com"
    base: str = ""
    base_ref: str = ""
    head: str = ""
    head_branch: str = ""
    head_repository: str = ""
    pull: int = 0
    run: int = 0
    run_of: str = ""
    conclusion: str = ""

    @property
    def proposes(self) -> bool:
        """Whether the checkout holds what is not merged yet, so that its config is not trusted."""
        return self.pull > 0 or self.name == "merge_group"

    @property
    def is_strangers(self) -> bool:
        """Whether a pull request comes from another repository, or from one that is gone.

        That its repository is a fork says nothing: this one may be a fork as well.
        """
        return self.pull > 0 and self.head_repository.lower() != self.repository.lower()

    @property
    def has_change(self) -> bool:
        """Whether there is a change to look at, rather than a branch as it stands."""
        return bool(self.base and self.head) and self.name != "workflow_run"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read the payload that the runner left.

        Raises:
            SettingsError: The payload cannot be read, or says of a pull request what cannot be.
        """
        name = environ.get("GITHUB_EVENT_NAME", "")
        payload = _payload(environ.get("GITHUB_EVENT_PATH", ""))
        repository = environ.get("GITHUB_REPOSITORY", "")
        return cls(
            name=name,
            repository=repository if _REPOSITORY.fullmatch(repository) else "",
            api=environ.get("GITHUB_API_URL") or "https://api.github.com",
            run=int(number) if _NUMBER.fullmatch(number := environ.get("GITHUB_RUN_ID", "")) else 0,
            **_details(name, payload),
        )


def _details(name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    if name == "workflow_run":
        run = _mapping(payload, "workflow_run")
        owner = _text(_mapping(_mapping(run, "head_repository"), "owner"), "login")
        branch = _text(run, "head_branch")
        return {
            "head": _commit(run, "head_sha"),
            "head_branch": f"{owner}:{branch}" if owner and branch else "",
            "run_of": _text(run, "event"),
            "conclusion": _text(run, "conclusion"),
        }
    if name == "merge_group":
        group = _mapping(payload, "merge_group")
        return {
            "base": _commit(group, "base_sha"),
            "head": _commit(group, "head_sha"),
            "base_ref": _text(group, "base_ref").removeprefix("refs/heads/"),
        }
    pull = _mapping(payload, "pull_request")
    if pull:
        base, head = _mapping(pull, "base"), _mapping(pull, "head")
        number = pull.get("number")
        return {
            "base": _commit(base, "sha"),
            "base_ref": _text(base, "ref"),
            "head": _commit(head, "sha"),
            "head_repository": _text(_mapping(head, "repo"), "full_name"),
            "pull": number if isinstance(number, int) and number > 0 else 0,
        }
    if name == "push":
        return {"base": _commit(payload, "before"), "head": _commit(payload, "after")}
    return {}


def _payload(path: str) -> Mapping[str, Any]:
    if not path:
        return {}
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_PAYLOAD + 1)
        value = json.loads(text) if text.strip() and len(text) <= MAX_PAYLOAD else {}
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"the event of this run cannot be read: {error}") from None
    return value if isinstance(value, dict) else {}


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _text(value: Mapping[str, Any], key: str) -> str:
    inner = value.get(key)
    return inner if isinstance(inner, str) else ""


def _commit(value: Mapping[str, Any], key: str) -> str:
    """A commit; the zeros that stand for none are none."""
    text = _text(value, key)
    return text if _COMMIT.fullmatch(text) and text.strip("0") else ""
