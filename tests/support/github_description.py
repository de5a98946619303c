"""An excerpt of GitHub's own OpenAPI description (by `tools.github_openapi`), and samples of it."""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from openapi_core import OpenAPI

DESCRIPTION = Path(__file__).parents[1] / "data/github-openapi.json.gz"


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


def query_parameters(spec: dict[str, Any], method: str, path: str) -> set[str]:
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
