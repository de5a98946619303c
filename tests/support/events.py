"""What GitHub hands a workflow about pull request 3."""

from __future__ import annotations

from typing import Any

from tests.support.github_server import COMMITS

PULL_REQUEST: dict[str, Any] = {
    "pull_request": {
        "number": 3,
        "base": {"sha": COMMITS["base"], "ref": "main"},
        "head": {"sha": COMMITS["head"], "ref": "topic"},
    }
}
# The second workflow, after the first has ended with a failure.
WORKFLOW_RUN: dict[str, Any] = {
    "workflow_run": {
        "event": "pull_request",
        "conclusion": "failure",
        "head_sha": COMMITS["head"],
        "head_branch": "topic",
        "head_repository": {"owner": {"login": "stranger"}},
    }
}
