"""What the Hub lists of a repository at one commit: its files with their sizes and oids."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMIT = re.compile(r"[0-9a-f]{40}")
_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of the listing. `oid` is the SHA-256 of an LFS file, or else git's SHA-1."""

    name: str
    size: int
    oid: str
    lfs: bool

    def holds(self, content: bytes) -> bool:
        """Whether this is the content that is listed."""
        if self.lfs:
            return hashlib.sha256(content).hexdigest() == self.oid
        git = hashlib.sha1(b"blob %d\0" % len(content), usedforsecurity=False)
        git.update(content)
        return git.hexdigest() == self.oid


@dataclass(frozen=True, slots=True)
class Listing:
    """The files at a commit, those of sub-folders among them."""

    commit: str
    files: tuple[ListedFile, ...]

    def kept(self) -> bytes:
        """As the cache keeps it."""
        return json.dumps([self.commit, [asdict(f) for f in self.files]]).encode()

    @classmethod
    def from_kept(cls, content: bytes) -> Listing:
        """From what `kept` made."""
        commit, files = json.loads(content)
        return cls(commit, tuple(ListedFile(**f) for f in files))


def parse_listing(content: bytes) -> Listing | None:
    """The answer of `/api/models/ID/revision/REVISION?blobs=true`, None if it makes no sense."""
    try:
        answer = json.loads(content)
        commit, siblings = answer["sha"], answer["siblings"]
        if not COMMIT.fullmatch(commit):
            return None
        return Listing(commit, tuple(_file(entry) for entry in siblings))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None


def _file(entry: Mapping[str, Any]) -> ListedFile:
    lfs = entry.get("lfs")
    oid = lfs["sha256"] if lfs else entry["blobId"]
    name, size = entry["rfilename"], lfs["size"] if lfs else entry["size"]
    if not isinstance(name, str) or not _OID.fullmatch(oid):
        raise TypeError("a name or oid is not one")
    name.encode()  # half a surrogate pair is no name
    if type(size) is not int or not 0 <= size < 2**63:
        raise ValueError("a size is not one")
    return ListedFile(name, size, oid, bool(lfs))
