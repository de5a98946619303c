"""What each vLLM release does, as extracted from its source by `python -m tools.vllm_facts`.

`facts("0.33.0").architecture("LlamaForCausalLM")` decodes that one record and those of its
classes, nothing else: the files are histories with a line per record (see
`tools/vllm_extract/shrink.py`), read as text and searched.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any

from quantgate.vllm.facts.records import Architecture, Method, assemble

__all__ = ["Architecture", "Method", "ReleaseFacts", "facts", "nearest", "releases"]

_FOLDER = resources.files(__name__)
_KEY = re.compile(r'^"(\S+) (\d+(?:\.\d+)+)": (null)?', re.MULTILINE)


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


@cache
def releases() -> tuple[str, ...]:
    """The releases that facts are shipped for, oldest first."""
    names = (entry.name for entry in _FOLDER.iterdir())
    found = (name.removesuffix(".json") for name in names if name[0].isdigit())
    return tuple(sorted(found, key=_version))


@cache
def facts(release: str) -> ReleaseFacts:
    """The facts of a release; of the nearest older one where it is not shipped itself.

    Raises:
        ValueError: `release` is no release number, or older than every shipped one.
    """
    if not re.fullmatch(r"\d+(\.\d+)+", release):
        raise ValueError(f"not a vLLM release: {release!r}")
    older = [r for r in releases() if _version(r) <= _version(release)]
    if not older:
        raise ValueError(f"vLLM {release} is older than {releases()[0]}, the first with facts")
    return ReleaseFacts(older[-1], release)


def nearest(release: str) -> ReleaseFacts:
    """The facts that a verdict on any release rests on: below the oldest shipped one, its own."""
    return facts(release if _version(release) >= _version(releases()[0]) else releases()[0])


@dataclass(frozen=True)
class ReleaseFacts:
    """One release. Records are decoded when asked for.

    Attributes:
        release: The release that the facts were extracted from.
        asked: The release that was asked for.
    """

    release: str
    asked: str

    @property
    def version(self) -> tuple[int, ...]:
        """The release that the facts are of, as numbers."""
        return _version(self.release)

    @property
    def exact(self) -> bool:
        """Whether the facts are those of the release that was asked for."""
        return _version(self.release) == _version(self.asked)

    def architecture(self, name: str) -> Architecture | None:
        """What the release does with an architecture, None if its registry lacks it."""
        record = _History.of("architectures").record(name, self.release)
        if record is None:
            return None
        classes = _History.of("classes")
        parts = [(p, classes.record(p, self.release) or {}) for p in record.get("parts", [])]
        return assemble(name, self.release, record, parts)

    def method(self, name: str) -> Method | None:
        """What the release says of a quantization method, None if it has no class for it."""
        record = _History.of("methods").record(name, self.release)
        return None if record is None else Method.of(name, record)

    @property
    def architectures(self) -> tuple[str, ...]:
        """The names in the registry, sorted."""
        return _History.of("architectures").names(self.release)

    @property
    def methods(self) -> tuple[str, ...]:
        """The quantization methods, in vLLM's order."""
        return tuple(self._quantization["methods"])

    @property
    def deprecated(self) -> tuple[str, ...]:
        """The methods that vLLM refuses unless told to allow deprecated ones."""
        return tuple(self._quantization["deprecated"])

    def min_capability(self, method: str) -> int | None:
        """The compute capability a method needs (89 for sm_89), None where that is open."""
        found = self.method(method)
        return found.min_capability if found else None

    @property
    def schemes(self) -> dict[str, dict[str, Any]]:
        """Family (`compressed_tensors`, `quark`) → scheme class → minimum capability.

        A capability that depends on something is `{"returns": [...]}` with the conditions.
        """
        return dict(self._quantization["schemes"])

    @property
    def removed(self) -> dict[str, str]:
        """Architectures that this release no longer has → the last release that had them.

        vLLM's own list where it says so, else the last shipped release.
        """
        here = set(self.architectures)
        gone: dict[str, str] = {}
        for release in releases()[: releases().index(self.release)]:
            gone |= dict.fromkeys(set(facts(release).architectures) - here, release)
        return dict(sorted(gone.items())) | dict(self._common["removed"])

    @property
    def out_of_tree(self) -> dict[str, str]:
        """Architectures that a plugin provides."""
        return dict(self._common["out_of_tree"])

    def first_release_knowing(self, architecture: str) -> str | None:
        """The oldest shipped release whose registry has the architecture, None if none has."""
        history = _History.of("architectures")
        return next((r for r in releases() if history.record(architecture, r)), None)

    @property
    def semantics(self) -> dict[str, Any]:
        """How the facts are applied: fingerprints, mapper order, the loaders' own mappers."""
        return dict(self._common["semantics"])

    @property
    def k_eq_v(self) -> tuple[dict[str, str], ...]:
        """Statements of vLLM that handle layers without a v_proj: module, function, code."""
        return tuple(self._common["k_eq_v"])

    @property
    def _quantization(self) -> dict[str, Any]:
        quantization: dict[str, Any] = self._common["quantization"]
        return quantization

    @cached_property
    def _common(self) -> dict[str, Any]:
        text = (_FOLDER / f"{self.release}.json").read_text(encoding="utf-8")
        common: dict[str, Any] = json.loads(text)
        return common


class _History:
    """The lines of one file: a name and the first release that has the record so."""

    def __init__(self, kind: str) -> None:
        self._text = (_FOLDER / f"{kind}.json").read_text(encoding="utf-8")

    @staticmethod
    @cache
    def of(kind: str) -> _History:
        """The history of a kind of records, read once."""
        return _History(kind)

    def record(self, name: str, release: str) -> dict[str, Any] | None:
        """The record of a name in a release, None if it has none."""
        start = "\n" + json.dumps(f"{name} ")[:-1]
        latest = None
        at = self._text.find(start)
        while at >= 0:
            end = self._text.find("\n", at + 1)
            since, _, body = self._text[at + len(start) : end].partition('": ')
            if _version(since) > _version(release):
                break
            latest = body
            at = end if self._text.startswith(start, end) else -1
        record: dict[str, Any] | None = json.loads(latest.rstrip(",")) if latest else None
        return record

    def names(self, release: str) -> tuple[str, ...]:
        """The names that have a record in a release, sorted."""
        wanted = _version(release)
        latest = {
            name: not gone
            for name, since, gone in _KEY.findall(self._text)
            if _version(since) <= wanted
        }
        return tuple(name for name, there in latest.items() if there)
