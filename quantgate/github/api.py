"""GitHub's REST API through PyGithub: the few calls that the action makes, and nothing else.

A request that meets a secondary rate limit or a server error is made again (`retry.py`); each wait
is bounded, because a job that sleeps an hour for a limit to reset helps nobody.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from github import Github
    from github.Repository import Repository
    from github.WorkflowRun import WorkflowRun

    from quantgate.github.event import Event

TIMEOUT = 30  # seconds
# GitHub: at most 3,000 files of a pull request are listed, with 100 on a page.
MAX_PULL_FILES = 3000
# An author's name where the API does not tell it: that of the token of every workflow.
ACTIONS_BOT = "github-actions[bot]"


class ApiError(Exception):
    """GitHub did not do what it was asked for. `status` is 0 where there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class PullFile:
    """A file that a pull request changes.

    Attributes:
        path: Where it is now.
        previous: Where it was, if it was moved.
        status: `added`, `modified`, `removed`, `renamed`, …
        patch: The hunks of a text file, empty where GitHub gives none.
    """

    path: str
    previous: str
    status: str
    patch: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request."""

    id: int
    author: str
    body: str
    url: str


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request."""

    number: int
    head: str


@dataclass(frozen=True, slots=True)
class RunJob:
    """A job of a workflow run.

    Attributes:
        name: With those of the jobs that called its workflow: `gate / smoke load`.
        status: `queued`, `in_progress`, `completed`, `waiting`, `requested` or `pending`.
        runner: Name of the runner that has taken it, empty for none.
    """

    name: str
    status: str
    runner: str


class Api:
    """The repository of the event, seen with the action's token.

    Every method raises `ApiError` where GitHub refuses or cannot be reached.
    """

    def __init__(self, event: Event, token: str = "") -> None:
        self._event = event
        self._token = token

    @cached_property
    def _github(self) -> Github:
        # Slow to import, and a run at a terminal or on a schedule never needs it.
        from github import Auth, Github  # noqa: PLC0415

        from quantgate.github.retry import retry  # noqa: PLC0415

        return Github(
            auth=Auth.Token(self._token) if self._token else None,
            base_url=self._event.api,
            timeout=TIMEOUT,
            user_agent="quantgate",
            per_page=100,
            retry=retry(),
            seconds_between_requests=0,
            seconds_between_writes=1,
            lazy=True,
        )

    @cached_property
    def _repository(self) -> Repository:
        return self._github.get_repo(self._event.repository)

    @cached_property
    def _run(self) -> WorkflowRun:
        return self._repository.get_workflow_run(self._event.run)

    def viewer(self) -> str:
        """Who the token is: the author of the comments it writes.

        REST tells a user, but not an app, its name; GraphQL tells both.
        """
        with _asking("who is asking"):
            requester = self._github.requester
            _, answer = requester.graphql_query("query { viewer { login } }", {})
        login = answer["data"]["viewer"]["login"]
        return str(login) if login else ACTIONS_BOT

    def head(self, number: int) -> str:
        """The commit that a pull request ends with now."""
        with _asking(f"for pull request {number}"):
            return str(self._repository.get_pull(number).head.sha or "")

    def pull_files(self, number: int) -> list[PullFile] | None:
        """The files a pull request changes; None where there are more than GitHub lists."""
        with _asking(f"for the files of pull request {number}"):
            pull = self._repository.get_pull(number)
            if pull.changed_files > MAX_PULL_FILES:
                return None
            return [
                PullFile(f.filename, f.previous_filename or "", f.status, f.patch or "")
                for f in pull.get_files()
            ]

    def tree(self, commit: str) -> dict[str, str] | None:
        """Path → object of every file of a commit; None where there are more than GitHub lists."""
        with _asking(f"for the files of {commit[:7]}"):
            tree = self._repository.get_git_tree(commit, recursive=True)
            if tree.raw_data.get("truncated"):
                return None
            return {e.path: f"{e.mode} {e.sha}" for e in tree.tree if e.type != "tree"}

    def text(self, path: str, commit: str, limit: int) -> str | None:
        """A file of a commit; None where there is none.

        Raises:
            ApiError: Also where it is no file, longer than `limit` bytes, or not UTF-8.
        """
        found = self._content(path, commit)
        if found is None:
            return None
        if not isinstance(found, list) and found.type == "file" and found.size <= limit:
            with suppress(UnicodeDecodeError, AssertionError):  # the latter: not sent, too large
                return str(found.decoded_content.decode())
        raise ApiError(f"{path} of {commit[:7]} is no text file of at most {limit:,} bytes")

    def _content(self, path: str, commit: str) -> Any:
        try:
            with _asking(f"for {path} of {commit[:7]}"):
                return self._repository.get_contents(path, ref=commit)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def jobs(self) -> list[RunJob]:
        """The jobs of this workflow run as they are now, skipped ones too."""
        with _asking("for the jobs of this run"):
            return [RunJob(j.name, j.status, j.runner_name or "") for j in self._run.jobs()]

    def has_reviewers(self, environment: str) -> bool:
        """Whether somebody has to approve a job in an environment; not if there is none.

        GitHub makes an environment that a job names and nobody made, without any protection.
        """
        path = f"/repos/{self._event.repository}/environments/{quote(environment, safe='')}"
        try:
            with _asking(f"for the environment {environment}"):
                _, found = self._github.requester.requestJsonAndCheck("GET", path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        rules = found.get("protection_rules") or []
        return any(r.get("type") == "required_reviewers" and r.get("reviewers") for r in rules)

    def comments(self, number: int) -> Iterator[Comment]:
        """All comments on a pull request, oldest first, over all pages."""
        with _asking(f"for the comments of pull request {number}"):
            for c in self._issue(number).get_comments():
                author = c.user.login if c.user else ""
                yield Comment(c.id, author, c.body or "", c.html_url)

    def create_comment(self, number: int, body: str) -> Comment:
        """Write a comment."""
        with _asking("to write a comment"):
            c = self._issue(number).create_comment(body)
            return Comment(c.id, c.user.login, c.body, c.html_url)

    def update_comment(self, number: int, comment: Comment, body: str) -> Comment:
        """Replace the text of a comment of ours."""
        with _asking("to change a comment"):
            c = self._issue(number).get_comment(comment.id)
            c.edit(body)
            return Comment(c.id, c.user.login, c.body, c.html_url)

    def open_pulls(self, head_branch: str) -> list[Pull]:
        """The open pull requests from `owner:branch`."""
        with _asking(f"for the pull requests from {head_branch}"):
            pulls = self._repository.get_pulls(state="open", head=head_branch)
            return [Pull(p.number, p.head.sha) for p in pulls]

    def artifacts(self, name: str, branch: str) -> list[int]:
        """The artifacts of this name from runs on a branch of this repository, newest first.

        A fork may have a branch of the same name, and its artifacts are listed here as well.
        """
        with _asking(f"for the artifacts {name}"):
            found = itertools.islice(self._repository.get_artifacts(name), 100)
            runs = [(a.id, a.expired, a.raw_data.get("workflow_run") or {}) for a in found]
        return sorted(
            (
                number
                for number, expired, run in runs
                if not expired
                and run.get("head_branch") == branch
                and run.get("head_repository_id") == run.get("repository_id")
            ),
            reverse=True,
        )

    def artifact(self, number: int, limit: int) -> bytes:
        """The archive of an artifact, of at most `limit` bytes."""
        import requests  # noqa: PLC0415  as PyGithub does it

        path = f"/repos/{self._event.repository}/actions/artifacts/{number}/zip"
        with _asking(f"for artifact {number}"):
            status, headers, _ = self._github.requester.requestJson("GET", path)
            place = headers.get("location", "")
            if status != 302 or not place.startswith(("https://", self._event.api)):
                raise ApiError(f"artifact {number} cannot be downloaded", status)
            # Elsewhere: PyGithub would refuse to go there, and the token must not.
            with requests.get(place, timeout=TIMEOUT, stream=True, allow_redirects=False) as answer:
                answer.raise_for_status()
                content = bytearray()
                for chunk in answer.iter_content(1 << 16):
                    content += chunk
                    if len(content) > limit:
                        raise ApiError(f"artifact {number} is larger than {limit:,} bytes")
        return bytes(content)

    def review_comments(self, number: int) -> list[tuple[str, str, str]]:
        """(author, path, body) of every comment on a line of a pull request."""
        with _asking(f"for the review comments of pull request {number}"):
            found = self._repository.get_pull(number).get_review_comments()
            return [(c.user.login if c.user else "", c.path, c.body or "") for c in found]

    def review(self, number: int, commit: str, body: str, comments: list[dict[str, Any]]) -> None:
        """Write one review with comments on lines; it neither approves nor blocks."""
        with _asking("to write a review"):
            self._github.requester.requestJsonAndCheck(
                "POST",
                f"/repos/{self._event.repository}/pulls/{number}/reviews",
                input={"commit_id": commit, "body": body, "event": "COMMENT", "comments": comments},
            )

    def _issue(self, number: int) -> Any:
        return self._repository.get_issue(number)


@contextmanager
def _asking(what: str) -> Iterator[None]:
    """Turn whatever can go wrong with a request into one sentence."""
    from github import GithubException  # noqa: PLC0415
    from requests import RequestException  # noqa: PLC0415

    try:
        yield
    except GithubException as error:
        message = error.data.get("message", "") if isinstance(error.data, dict) else ""
        said = f": {message}" if message else ""
        raise ApiError(
            f"Asked {what}, GitHub answered {error.status}{said}", error.status
        ) from None
    except RequestException as error:
        raise ApiError(f"Asked {what}, GitHub did not answer ({type(error).__name__})") from None
