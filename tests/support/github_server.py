"""A GitHub on loopback: it keeps comments, pages its lists, refuses what a token may not do.

Every request and every answer is held against GitHub's own OpenAPI description (an excerpt). A call
that GitHub does not have, a body or parameter that it does not take, or an answer that it would not
give is a violation, which fails the test at its end.
"""

from __future__ import annotations

import base64
import io
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from tests.support.github_description import of
from tests.support.github_http import Handler

BOT = "github-actions[bot]"
REPOSITORY = "acme/models"
COMMITS = {name: digit * 40 for name, digit in {"base": "b", "head": "a", "older": "c"}.items()}


@dataclass
class PullRequest:
    """A pull request, and what it changes: path → (status, previous path)."""

    head: str = COMMITS["head"]
    head_branch: str = "acme:topic"
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    patches: dict[str, str] = field(default_factory=dict)
    changed_files: int | None = None


@dataclass
class Fault:
    """What to answer instead, once."""

    method: str
    path: str  # a regular expression
    status: int
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    after: bool = False  # only once it was done


class GitHubServer:
    """The state, and the server in front of it; a context manager."""

    def __init__(self, *, prefix: str = "", bot: str = BOT) -> None:
        self.prefix = prefix
        self.bot = bot
        self.may_write = True
        self.gone_when_changed = False
        self.pulls: dict[int, PullRequest] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.reviews: list[dict[str, Any]] = []
        self.review_comments: list[dict[str, Any]] = []
        self.contents: dict[tuple[str, str], bytes] = {}
        self.trees: dict[str, dict[str, str]] = {}
        self.truncated = False
        self.artifacts: dict[int, dict[str, Any]] = {}
        self.archives: dict[int, bytes] = {}
        self.environments: dict[str, list[dict[str, Any]]] = {}
        self.jobs: list[list[dict[str, Any]]] = []  # one answer after the other
        self.faults: list[Fault] = []
        self.calls: list[tuple[str, str]] = []
        self.tokens: set[str] = set()
        self.violations: list[str] = []
        self._next_id = 1000
        handler = type("Handler", (Handler,), {"github": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)

    def __enter__(self) -> GitHubServer:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        """What GITHUB_API_URL would be."""
        return self.host + self.prefix

    def writes(self) -> list[tuple[str, str]]:
        """The calls that changed something, or tried to."""
        return [(m, p) for m, p in self.calls if m != "GET" and not p.endswith("graphql")]

    def add_comment(self, pull: int, author: str, body: str) -> dict[str, Any]:
        """A comment that is there already."""
        self._next_id += 1
        at = f"{self.url}/repos/{REPOSITORY}/issues/comments/{self._next_id}"
        page = f"https://github.com/{REPOSITORY}/pull/{pull}#issuecomment-{self._next_id}"
        kind = "Bot" if author.endswith("[bot]") else "User"
        user = of("simple-user", login=author, type=kind, id=7)
        comment = of("issue-comment", id=self._next_id, url=at, html_url=page, body=body, user=user)
        self.comments.setdefault(pull, []).append(comment)
        return comment

    def set_file(self, path: str, content: str | bytes, commit: str) -> None:
        """A file of a commit."""
        self.contents[path, commit] = content.encode() if isinstance(content, str) else content

    # What each call does: the matched parts of the path, the query and the body → the answer.

    def get_pull(self, number: str, **_: Any) -> Any:
        pull = self.pulls.get(int(number))
        if pull is None:
            return 404, None
        files = len(pull.files) if pull.changed_files is None else pull.changed_files
        at = f"{self.url}/repos/{REPOSITORY}/pulls/{number}"
        head = {**of("pull-request")["head"], "sha": pull.head}
        return 200, of("pull-request", number=int(number), url=at, changed_files=files, head=head)

    def get_pulls(self, query: dict[str, str], **_: Any) -> Any:
        found = [(n, p) for n, p in self.pulls.items() if p.head_branch == query.get("head")]
        return 200, [
            of(
                "pull-request-simple",
                number=n,
                state="open",
                head={**of("pull-request-simple")["head"], "sha": p.head},
            )
            for n, p in found
        ]

    def get_files(self, number: str, **_: Any) -> Any:
        pull = self.pulls[int(number)]
        answer = []
        for path, (status, previous) in pull.files.items():
            entry = of("diff-entry", filename=path, status=status, sha="d" * 40)
            if previous:
                entry["previous_filename"] = previous
            if path in pull.patches:
                entry["patch"] = pull.patches[path]
            answer.append(entry)
        return 200, answer

    def get_comments(self, number: str, **_: Any) -> Any:
        return 200, self.comments.get(int(number), [])

    def post_comment(self, number: str, body: dict[str, Any], **_: Any) -> Any:
        return 201, self.add_comment(int(number), self.bot, body["body"])

    def patch_comment(self, number: str, body: dict[str, Any], **_: Any) -> Any:
        if self.gone_when_changed:
            self.comments.clear()
        for comment in (c for comments in self.comments.values() for c in comments):
            if comment["id"] == int(number):
                if comment["user"]["login"] != self.bot:
                    return 403, None
                comment["body"] = body["body"]
                return 200, comment
        return 404, None

    def get_review_comments(self, number: str, **_: Any) -> Any:
        return 200, self.review_comments

    def post_review(self, number: str, body: dict[str, Any], **_: Any) -> Any:
        self.reviews.append(body)
        for comment in body.get("comments", []):
            user = of("simple-user", login=self.bot, id=7)
            made = of(
                "pull-request-review-comment", body=comment["body"], path=comment["path"], user=user
            )
            self.review_comments.append(made)
        return 200, of("pull-request-review")

    def add_artifact(
        self, content: str, *, branch: str = "main", repository: int = 1, expired: bool = False
    ) -> int:
        """A report that a run on a branch left, of this repository (1) or of a fork."""
        number = 500 + len(self.artifacts)
        run = {
            "id": number,
            "repository_id": 1,
            "head_repository_id": repository,
            "head_branch": branch,
            "head_sha": COMMITS["base"],
        }
        self.artifacts[number] = of(
            "artifact", id=number, name="quantgate-report", expired=expired, workflow_run=run
        )
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("report.json", content)
        self.archives[number] = packed.getvalue()
        return number

    def get_artifacts(self, query: dict[str, str], **_: Any) -> Any:
        found = [a for a in self.artifacts.values() if a["name"] == query.get("name", a["name"])]
        return 200, {"total_count": len(found), "artifacts": found}

    def get_archive(self, number: str, **_: Any) -> Any:
        return 302, f"{self.host}/store/{number}"

    def add_jobs(self, **statuses: str) -> None:
        """What the next question for the jobs of the run is answered; the last answer stays.

        A name is `gate__smoke_load` for `gate / smoke load`, and the runner's name follows a colon.
        """
        found = []
        for name, said in statuses.items():
            status, _, runner = said.partition(":")
            words = name.replace("__", " / ").replace("_", " ")
            found.append(of("job", name=words, status=status, runner_name=runner or None))
        self.jobs.append(found)

    def add_environment(self, name: str, *reviewers: str) -> None:
        """An environment of the repository; with reviewers, these have to approve."""
        people = [{"type": "User", "reviewer": of("simple-user", login=r)} for r in reviewers]
        rule = {"id": 1, "node_id": "x", "type": "required_reviewers", "reviewers": people}
        wait = {"id": 2, "node_id": "y", "type": "wait_timer", "wait_timer": 30}
        self.environments[name] = [wait, rule] if reviewers else [wait]

    def get_environment(self, name: str, **_: Any) -> Any:
        name = unquote(name)
        if name not in self.environments:
            return 404, None
        return 200, of("environment", name=name, protection_rules=self.environments[name])

    def get_run(self, number: str, **_: Any) -> Any:
        at = f"{self.url}/repos/{REPOSITORY}/actions/runs/{number}"
        return 200, of("workflow-run", id=int(number), url=at, jobs_url=f"{at}/jobs")

    def get_jobs(self, **_: Any) -> Any:
        found = self.jobs.pop(0) if len(self.jobs) > 1 else self.jobs[0]
        return 200, {"total_count": len(found), "jobs": found}

    def get_tree(self, sha: str, **_: Any) -> Any:
        if sha not in self.trees:
            return 404, None
        entries = [
            {"path": p, "mode": "100644", "type": "blob", "sha": s, "size": 1, "url": self.url}
            for p, s in self.trees[sha].items()
        ]
        return 200, of("git-tree", sha=sha, tree=entries, truncated=self.truncated)

    def get_contents(self, path: str, query: dict[str, str], **_: Any) -> Any:
        content = self.contents.get((unquote(path), query.get("ref", "")))
        if content is None:
            return 404, None
        return 200, of(
            "content-file",
            type="file",
            path=unquote(path),
            name=unquote(path).rpartition("/")[2],
            encoding="base64",
            size=len(content),
            content=base64.b64encode(content).decode(),
            sha="d" * 40,
        )
