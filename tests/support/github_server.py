"""A GitHub on loopback: it keeps comments, pages its lists, refuses what a token may not do.

Every request and every answer is held against GitHub's own OpenAPI description (an excerpt, made by
`tools.github_openapi`). A call that GitHub does not have, a body or parameter that it does not
take, or an answer that it would not give is a violation, which fails the test at its end.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import threading
import zipfile
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from openapi_core import OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest, MockResponse

DESCRIPTION = Path(__file__).parents[1] / "data/github-openapi.json.gz"
BOT = "github-actions[bot]"
REPOSITORY = "acme/models"
COMMITS = {name: digit * 40 for name, digit in {"base": "b", "head": "a", "older": "c"}.items()}


@cache
def description() -> tuple[dict[str, Any], OpenAPI]:
    """The excerpt, and the validator over it."""
    spec = json.loads(gzip.decompress(DESCRIPTION.read_bytes()))
    return spec, OpenAPI.from_dict(spec)


def sample(schema: dict[str, Any]) -> Any:
    """The smallest value of a schema: what a test does not care about."""
    if "$ref" in schema:
        _, _, kind, name = schema["$ref"].split("/")
        return sample(description()[0]["components"][kind][name])
    if schema.get("nullable"):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return sample(schema[word][0])
    if "allOf" in schema:
        parts = [sample(part) for part in schema["allOf"]]
        return {k: v for part in parts for k, v in part.items()}
    match schema.get("type"):
        case "array":
            return []
        case "boolean":
            return False
        case "integer" | "number":
            return 0
        case "string":
            by_format = {"uri": "https://example.org/", "date-time": "2026-01-01T00:00:00Z"}
            return by_format.get(schema.get("format", ""), "x" * schema.get("minLength", 0))
    properties = schema.get("properties", {})
    return {name: sample(properties.get(name, {})) for name in schema.get("required", ())}


def of(component: str, **values: Any) -> dict[str, Any]:
    """A value of one of GitHub's schemas."""
    return {**sample({"$ref": f"#/components/schemas/{component}"}), **values}


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
        self.faults: list[Fault] = []
        self.calls: list[tuple[str, str]] = []
        self.tokens: set[str] = set()
        self.violations: list[str] = []
        self._next_id = 1000
        handler = type("Handler", (_Handler,), {"github": self})
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


_R = r"/repos/acme/models"
ROUTES = (
    ("GET", rf"{_R}/actions/artifacts", "get_artifacts"),
    ("GET", rf"{_R}/actions/artifacts/(?P<number>\d+)/zip", "get_archive"),
    ("GET", rf"{_R}/pulls", "get_pulls"),
    ("GET", rf"{_R}/pulls/(?P<number>\d+)", "get_pull"),
    ("GET", rf"{_R}/pulls/(?P<number>\d+)/files", "get_files"),
    ("GET", rf"{_R}/pulls/(?P<number>\d+)/comments", "get_review_comments"),
    ("POST", rf"{_R}/pulls/(?P<number>\d+)/reviews", "post_review"),
    ("GET", rf"{_R}/issues/(?P<number>\d+)/comments", "get_comments"),
    ("POST", rf"{_R}/issues/(?P<number>\d+)/comments", "post_comment"),
    ("PATCH", rf"{_R}/issues/comments/(?P<number>\d+)", "patch_comment"),
    ("GET", rf"{_R}/git/trees/(?P<sha>[0-9a-f]+)", "get_tree"),
    ("GET", rf"{_R}/contents/(?P<path>.+)", "get_contents"),
)
# GitHub lists no more files of a pull request than this, on all pages together.
MAX_FILES = 3000


class _Handler(BaseHTTPRequestHandler):
    github: GitHubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        self.github.tokens.add(self.headers.get("Authorization", ""))
        self.github.calls.append((self.command, url.path))
        fault = next((f for f in self.github.faults if self._meets(f, url.path)), None)
        if fault:
            self.github.faults.remove(fault)
            if fault.after:
                request = self._request(url.path, url.query, data)
                assert request
                self._answer(url.path, url.query, data)
            self._send(fault.status, {"message": fault.message}, fault.headers)
            return
        if url.path.startswith("/store/"):
            if "Authorization" in self.headers:
                self.github.violations.append("a token was sent to where artifacts are kept")
            self._send(200, self.github.archives[int(url.path.rpartition("/")[2])])
            return
        if url.path == self._graphql():
            self._viewer(json.loads(data))
            return
        if not url.path.startswith(f"{self.github.prefix}/"):
            self.github.violations.append(f"{self.command} {url.path} is not below the API's path")
        self._call(url.path.removeprefix(self.github.prefix), url.query, data)

    def _meets(self, fault: Fault, path: str) -> bool:
        return fault.method == self.command and re.search(fault.path, path) is not None

    def _graphql(self) -> str:
        """On GitHub Enterprise Server, GraphQL lies beside REST and not beneath it."""
        return f"{self.github.prefix.removesuffix('/v3')}/graphql"

    def _viewer(self, body: dict[str, Any]) -> None:
        if " ".join(body["query"].split()) != "query { viewer { login } }":
            self.github.violations.append(f"an unknown query: {body['query']}")
        self._send(200, {"data": {"viewer": {"login": self.github.bot}}})

    def _call(self, path: str, query: str, data: bytes) -> None:
        request = self._request(path, query, data)
        if request is None:
            self._send(422, {"message": "Validation Failed"})
            return
        if self.command != "GET" and not self.github.may_write:
            self._send(403, {"message": "Resource not accessible by integration"})
            return
        status, value = self._answer(path, query, data)
        parameters = {k: v[0] for k, v in parse_qs(query).items()}
        links: dict[str, str] = {}
        if isinstance(value, list):
            value, links = self._page(path, value, parameters)
        if status == 302:
            self._send(status, None, {"Location": value})
            return
        if status >= 400:
            self._send(status, {"message": "Not Found" if status == 404 else "Forbidden"})
            return
        self._send(status, value, links, request)

    def _answer(self, path: str, query: str, data: bytes) -> tuple[int, Any]:
        for method, pattern, name in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == self.command:
                parameters = {k: v[0] for k, v in parse_qs(query).items()}
                body = json.loads(data) if data else {}
                answer = getattr(self.github, name)
                return answer(**match.groupdict(), query=parameters, body=body)
        return 404, None

    def _page(
        self, path: str, items: list[Any], query: dict[str, str]
    ) -> tuple[list[Any], dict[str, str]]:
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        if path.endswith("/files"):
            items = items[:MAX_FILES]
        if size > 100:
            self.github.violations.append(f"{path}: a page of {size}")
        if page * size >= len(items):
            return items[(page - 1) * size :], {}
        rest = "&".join(f"{k}={quote(v)}" for k, v in query.items() if k != "page")
        link = f'<{self.github.url}{path}?{rest}&page={page + 1}>; rel="next"'
        return items[(page - 1) * size : page * size], {"Link": link}

    def _request(self, path: str, query: str, data: bytes) -> MockRequest | None:
        """The request as the validator takes it; None, and a violation, if it does not."""
        head, mark, rest = path.partition("/contents/")
        # GitHub takes slashes in this one parameter; OpenAPI has no word for that.
        shown = head + mark + quote(unquote(rest), safe="") if mark else path
        arguments = {k: v[0] for k, v in parse_qs(query).items()}
        request = MockRequest(
            "https://api.github.com", self.command.lower(), shown, args=arguments, data=data or None
        )
        spec, validator = description()
        try:
            validator.validate_request(request)
        except OpenAPIError as error:
            cause = error.__cause__ or error
            self.github.violations.append(f"{self.command} {path}: {error}: {cause}")
            return None
        known = _parameters(spec, self.command.lower(), shown)
        for name in arguments.keys() - known:
            self.github.violations.append(f"{self.command} {path}: no parameter {name!r}")
        return request

    def _send(
        self,
        status: int,
        value: Any,
        headers: dict[str, str] | None = None,
        request: MockRequest | None = None,
    ) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        if request is not None:
            try:
                description()[1].validate_response(request, MockResponse(data, status))
            except OpenAPIError as error:
                cause = error.__cause__ or error
                details = getattr(cause, "schema_errors", cause)
                self.github.violations.append(f"answer {status} {self.path}: {details}"[:2000])
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)


def _parameters(spec: dict[str, Any], method: str, path: str) -> set[str]:
    """The query parameters of a call."""
    for template, item in spec["paths"].items():
        if re.fullmatch(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(template)), path):
            found = item[method].get("parameters", [])
            resolved = [
                spec["components"]["parameters"][p["$ref"].rpartition("/")[2]] if "$ref" in p else p
                for p in found
            ]
            return {p["name"] for p in resolved if p["in"] == "query"}
    return set()
