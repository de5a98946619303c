"""A Git LFS server on loopback, and its storage on another port: real HTTP, batch API and ranges.

The storage wants the header that the batch API gave with an address, and the number in the address
grows with every batch, so that addresses can expire. It misbehaves as the loopback Hub does.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.hub_server import Content, FakeHub, HubHandler, Seen, oid

REPOSITORY = "org/models"
MEDIA_TYPE = "application/vnd.git-lfs+json"


@dataclass
class Batch:
    """A batch request as it came."""

    headers: dict[str, str]
    objects: list[dict[str, Any]]
    body: dict[str, Any] = field(default_factory=dict)


class FakeLfs(FakeHub):
    """An LFS server for one repository; `address` is the git server's, `storage` the files'."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, tuple[str, Content]] = {}
        self.batches: list[Batch] = []
        self.expired_below = 0  # addresses of batches before this one are refused
        self.here = False  # whether files lie on the git server itself
        self.change: Callable[[dict[str, Any]], None] = lambda entry: None
        self.wants_token = ""  # the whole Authorization

    def handler(self) -> type[BaseHTTPRequestHandler]:
        return _Handler

    @property
    def remote(self) -> str:
        return f"{self.address}/{REPOSITORY}.git"

    def put(self, name: str, content: bytes | Content) -> bytes:
        """Store a file; its pointer is returned."""
        if isinstance(content, bytes):
            content = Content(content)
            digest = hashlib.sha256(content.head).hexdigest()
        else:
            digest = oid(content, name if name.endswith(".safetensors") else f"{name}.bin")
        self.objects[digest] = (name, content)
        return pointer(digest, content.size)

    def checkout(
        self, folder: Path, files: Mapping[str, bytes | Content], model: str = "m"
    ) -> Path:
        """A checkout of the repository with a model folder that holds pointers and small files."""
        git = folder / ".git"
        git.mkdir(parents=True, exist_ok=True)
        (git / "config").write_text(
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
            f'[remote "origin"]\n\turl = {self.remote}\n'
            "\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
            '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n'
        )
        place = folder / "m"
        place.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            large = isinstance(content, Content) or name.endswith(".safetensors")
            (place / name).write_bytes(self.put(name, content) if large else content)  # type: ignore[arg-type]
        return place


def write_config(checkout: Path, url: str, more: str = "") -> None:
    """A `.git/config` as git writes it."""
    (checkout / ".git").mkdir(parents=True, exist_ok=True)
    text = f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n\tfetch = +a:b\n{more}'
    (checkout / ".git" / "config").write_text(text)


def pointer(digest: str, size: int) -> bytes:
    """A pointer file."""
    lines = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n"
    return lines.encode()


class _Handler(HubHandler):
    def do_POST(self) -> None:
        lfs: Any = self.server.hub
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        given = {k.lower(): v for k, v in self.headers.items()}
        with lfs.lock:
            lfs.batches.append(Batch(given, body["objects"], body))
            lfs.seen.append(
                Seen(self.server.kind, "POST", self.path, "", given.get("authorization", ""))
            )
            serial = len(lfs.batches)
        if self._misbehaved("batch"):
            return
        if lfs.wants_token and given.get("authorization") != lfs.wants_token:
            self._lfs(401, {"message": "Credentials needed"})
        elif self.path != f"/{REPOSITORY}.git/info/lfs/objects/batch":
            self._lfs(404, {"message": "Not Found"})
        else:
            objects = [self._object(lfs, o, serial) for o in body["objects"]]
            self._lfs(200, {"transfer": "basic", "objects": objects, "hash_algo": "sha256"})

    def _object(self, lfs: Any, wanted: dict[str, Any], serial: int) -> dict[str, Any]:
        entry: dict[str, Any] = {"oid": wanted["oid"], "size": wanted["size"]}
        if wanted["oid"] not in lfs.objects:
            return {**entry, "error": {"code": 404, "message": "Object does not exist"}}
        place = lfs.address if lfs.here else lfs.storage
        href = f"{place}/objects/{wanted['oid']}?serial={serial}"
        download: dict[str, Any] = {"href": href, "expires_in": 3600}
        if not lfs.here:
            download["header"] = {"X-Signed": "yes"}
        entry |= {"size": lfs.objects[wanted["oid"]][1].size, "actions": {"download": download}}
        lfs.change(entry)
        return entry

    def _answer(self) -> None:
        lfs: Any = self.server.hub
        if lfs.latency:
            time.sleep(lfs.latency)
        parts = urlsplit(self.path)
        token = self.headers.get("authorization", "")
        with lfs.lock:
            lfs.seen.append(
                Seen(self.server.kind, self.command, parts.path, self.headers["range"] or "", token)
            )
        name, content = lfs.objects[parts.path.rpartition("/")[2]]
        serial = int(parse_qs(parts.query)["serial"][0])
        signed = self.headers.get("x-signed") == "yes"
        if self.server.kind == "hub":
            signed = not lfs.wants_token or token == lfs.wants_token
        if not signed or serial < lfs.expired_below:
            self._send(403, b"<Error><Code>AccessDenied</Code></Error>", {})
            return
        self._file(name, content, {})

    def _lfs(self, status: int, answer: dict[str, Any]) -> None:
        self._send(status, json.dumps(answer).encode(), {"content-type": MEDIA_TYPE})
