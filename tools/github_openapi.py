"""Cut GitHub's official OpenAPI description down to the calls that quantgate makes.

    npm pack @octokit/openapi && python -m tools.github_openapi octokit-openapi-*.tgz

The result, `tests/data/github-openapi.json.gz`, is what the tests hold every request and response
against. The package carries the description that GitHub publishes as github/rest-api-description.
"""

from __future__ import annotations

import gzip
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[1] / "tests/data/github-openapi.json.gz"
MEMBER = "package/generated/api.github.com.json"
_REPO = "/repos/{owner}/{repo}"
CALLS = {
    f"{_REPO}/actions/artifacts": ["get"],
    f"{_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}": ["get"],
    f"{_REPO}/actions/runs/{{run_id}}": ["get"],
    f"{_REPO}/actions/runs/{{run_id}}/jobs": ["get"],
    f"{_REPO}/environments/{{environment_name}}": ["get"],
    f"{_REPO}/contents/{{path}}": ["get"],
    f"{_REPO}/git/trees/{{tree_sha}}": ["get"],
    f"{_REPO}/issues/comments/{{comment_id}}": ["patch"],
    f"{_REPO}/issues/{{issue_number}}/comments": ["get", "post"],
    f"{_REPO}/pulls": ["get"],
    f"{_REPO}/pulls/{{pull_number}}": ["get"],
    f"{_REPO}/pulls/{{pull_number}}/comments": ["get"],
    f"{_REPO}/pulls/{{pull_number}}/files": ["get"],
    f"{_REPO}/pulls/{{pull_number}}/reviews": ["post"],
}
_PROSE = frozenset({"description", "example", "examples", "externalDocs", "x-github", "summary"})
_OF_NAMES = frozenset({"properties", "schemas", "paths"})


def trimmed(full: dict[str, Any]) -> dict[str, Any]:
    """The calls, and of the components those that they lead to, without prose and examples."""
    paths = {p: {m: full["paths"][p][m] for m in methods} for p, methods in CALLS.items()}
    components: dict[str, dict[str, Any]] = {}
    todo = _references(paths)
    while todo:
        kind, name = todo.pop()
        if name not in components.setdefault(kind, {}):
            components[kind][name] = full["components"][kind][name]
            todo |= _references(components[kind][name])
    info = {"title": full["info"]["title"], "version": full["info"]["version"]}
    kept = {"openapi": full["openapi"], "info": info, "paths": paths, "components": components}
    result: dict[str, Any] = _plain(kept)
    return result


def _references(value: Any) -> set[tuple[str, str]]:
    if isinstance(value, list):
        return {r for inner in value for r in _references(inner)}
    if not isinstance(value, dict):
        return set()
    found = {r for key, inner in value.items() if key not in _PROSE for r in _references(inner)}
    reference = value.get("$ref")
    if isinstance(reference, str):
        _, _, kind, name = reference.split("/")
        found.add((kind, name))
    return found


def _plain(value: Any, *, names: bool = False) -> Any:
    """Without prose; the keys of `properties` are names of fields, which may be `description`."""
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: _plain(inner, names=key in _OF_NAMES and not names)
        for key, inner in value.items()
        if names or key not in _PROSE
    }
    if not names and kept.get("nullable") and "enum" in kept:
        kept["enum"] = [*kept["enum"], None]  # the description forgets it, GitHub does not
    if not names and isinstance(value.get("description"), str):
        kept["description"] = ""  # a response must have one
    return kept


def main() -> None:
    """Read the package, write the excerpt."""
    with tarfile.open(sys.argv[1]) as package:
        member = package.extractfile(MEMBER)
        if member is None:
            sys.exit(f"{sys.argv[1]} holds no {MEMBER}")
        excerpt = trimmed(json.load(member))
    text = json.dumps(excerpt, sort_keys=True, separators=(",", ":"))
    OUTPUT.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{OUTPUT.name}: {excerpt['info']['version']}, {OUTPUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
