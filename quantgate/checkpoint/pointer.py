"""Git LFS pointer files: what stands in a checkout in the place of a large file.

Git LFS specification, docs/spec.md: text of less than 1024 bytes, `version` first.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_POINTER: Final = 1024
"""A pointer file is shorter than this many bytes."""

_VERSION = re.compile(rb"version https://(?:git-lfs|hawser)\.github\.com/spec/")
_OID = re.compile(rb"^oid sha256:([0-9a-f]{64})$", re.MULTILINE)
_SIZE = re.compile(rb"^size (\d{1,18})$", re.MULTILINE)


class Pointer(NamedTuple):
    """The file that is meant: the SHA-256 of its content in hexadecimal, and its bytes.

    What a broken pointer does not say is empty, or 0.
    """

    oid: str
    size: int


def parse_pointer(content: bytes) -> Pointer | None:
    """The pointer, None if the content is something else."""
    if len(content) >= MAX_POINTER or not _VERSION.match(content):
        return None
    oid, size = _OID.search(content), _SIZE.search(content)
    return Pointer(oid[1].decode() if oid else "", int(size[1]) if size else 0)
