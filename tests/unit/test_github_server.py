"""The GitHub of the tests refuses what GitHub does not have: otherwise it would prove nothing."""

from __future__ import annotations

import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.github_server import REPOSITORY, GitHubServer, PullRequest


def ask(server: GitHubServer, method: str, path: str, body: object = None) -> int:
    """One request; the status of the answer."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{server.host}{path}", data=data, method=method)
    try:
        with urlopen(request, timeout=10) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"/repos/{REPOSITORY}/pull/3", None),
        ("GET", f"/repos/{REPOSITORY}/pulls/three", None),
        ("DELETE", f"/repos/{REPOSITORY}/pulls/3", None),
        ("GET", f"/repos/{REPOSITORY}/pulls/3/files?per_page=100&pages=2", None),
        ("GET", f"/repos/{REPOSITORY}/pulls/3/files?per_page=200", None),
        ("POST", f"/repos/{REPOSITORY}/issues/3/comments", {"text": "x"}),
        ("POST", f"/repos/{REPOSITORY}/issues/3/comments", {"body": 1}),
        ("POST", f"/repos/{REPOSITORY}/pulls/3/reviews", {"event": "SHOUT"}),
        ("POST", "/graphql", {"query": "query { viewer { email } }"}),
    ],
)
def test_a_wrong_call_is_a_violation(method: str, path: str, body: object):
    """A path, method, parameter or body that is not in GitHub's description."""
    with GitHubServer() as server:
        server.pulls[3] = PullRequest()
        ask(server, method, path, body)
        assert len(server.violations) == 1


def test_a_wrong_answer_is_a_violation():
    """What the stand-in says is held against the description as well."""
    with GitHubServer() as server:
        server.pulls[3] = PullRequest(files={"a": ("mended", "")})
        ask(server, "GET", f"/repos/{REPOSITORY}/pulls/3/files")
        assert len(server.violations) == 1


def test_a_right_call_is_none():
    """The same calls, as GitHub has them."""
    with GitHubServer() as server:
        server.pulls[3] = PullRequest(files={"a": ("modified", "")})
        assert ask(server, "GET", f"/repos/{REPOSITORY}/pulls/3/files?per_page=100") == 200
        assert ask(server, "POST", f"/repos/{REPOSITORY}/issues/3/comments", {"body": "x"}) == 201
        assert server.violations == []
