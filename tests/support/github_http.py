"""The HTTP of the GitHub on loopback: routes, pages, and each call held against the description."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest, MockResponse

from tests.support.github_description import description, query_parameters

if TYPE_CHECKING:
    from tests.support.github_server import Fault, GitHubServer

_R = r"/repos/acme/models"
ROUTES = (
    ("GET", rf"{_R}/actions/artifacts", "get_artifacts"),
    ("GET", rf"{_R}/actions/artifacts/(?P<number>\d+)/zip", "get_archive"),
    ("GET", rf"{_R}/actions/runs/(?P<number>\d+)", "get_run"),
    ("GET", rf"{_R}/actions/runs/(?P<number>\d+)/jobs", "get_jobs"),
    ("GET", rf"{_R}/environments/(?P<name>[^/]+)", "get_environment"),
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


class Handler(BaseHTTPRequestHandler):
    """Answers for the `GitHubServer` that a subclass names."""

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
        known = query_parameters(spec, self.command.lower(), shown)
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
