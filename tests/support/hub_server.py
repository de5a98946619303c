"""A Hugging Face Hub on loopback: real HTTP, so that the real client talks to it.

It answers what quantgate and huggingface_hub ask for: the listing of a revision with sizes and
oids, and files by HEAD and GET with ranges. LFS files are redirected to a second server on another
port, as the Hub redirects to its storage. The error headers are those of the Hub. `Misbehaviour`s
make it fail in one way, for files of a name or for the listing.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LFS_SUFFIXES = (".safetensors", ".gguf", ".bin")
_INSTEAD = {"stall", "drop", "html", "garbage", "loop"}  # of the file, not of its parts
LFS_SIZE = 10_000_000  # files above are in LFS whatever they are called


class Content:
    """A file of `size` bytes: some bytes, and zeros after them, which take no memory."""

    def __init__(self, head: bytes, size: int | None = None) -> None:
        self.head = head
        self.size = len(head) if size is None else size

    def part(self, begin: int, end: int) -> bytes:
        end = min(end, self.size)
        have = self.head[begin:end]
        return have + bytes(max(0, end - begin - len(have)))


@dataclass
class Repo:
    """A repository: file name → content at one commit, and who may read it."""

    files: dict[str, Content]
    revisions: tuple[str, ...] = ("main",)
    private: bool = False  # only seen with TOKEN
    gated: bool = False  # listing for everyone, files only with GRANTED

    @property
    def commit(self) -> str:
        names = "\0".join(f"{n} {oid(c, n)}" for n, c in sorted(self.files.items()))
        return hashlib.sha1(names.encode()).hexdigest()


TOKEN = "hf_reader"
GRANTED = "hf_granted"


@dataclass
class Misbehaviour:
    """What goes wrong, and where.

    Attributes:
        kind: A status (`429`), `ignore-range`, `short`, `wrong-range`, `wrong-total`, `stall`,
            `drip`, `drop`, `loop`, `html`, `garbage`.
        name: File names it holds for (a regular expression); `listing` for the listing.
        times: How often; without end by default.
        skip: How many requests are answered well before.
        headers: Sent with a status.
    """

    kind: str
    name: str = r"[\w.-]+\.safetensors"
    times: int = 1_000_000
    skip: int = 0
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """A request as the server got it."""

    server: str  # hub or storage
    method: str
    path: str
    range: str
    token: str


@cache
def oid(content: Content, name: str) -> str:
    """The Git LFS oid or git's blob id. That of a file with zeros is made up."""
    if is_lfs(name, content):
        data = content.head + str(content.size).encode() * (content.size != len(content.head))
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % content.size + content.head).hexdigest()


def is_lfs(name: str, content: Content) -> bool:
    return name.endswith(LFS_SUFFIXES) or content.size > LFS_SIZE


class FakeHub:
    """The two servers and what they serve."""

    def __init__(self, latency: float = 0.0) -> None:
        self.repos: dict[str, Repo] = {}
        self.misbehaviours: list[Misbehaviour] = []
        self.seen: list[Seen] = []
        self.sent = 0  # bytes of bodies
        self.latency = latency
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self._servers = [_Server(self, "hub"), _Server(self, "storage")]
        self.address, self.storage = (
            f"http://127.0.0.1:{s.server_address[1]}" for s in self._servers
        )

    @contextmanager
    def running(self) -> Iterator[FakeHub]:
        threads = [
            threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            for s in self._servers
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self.stop.set()
            for server in self._servers:
                server.shutdown()
                server.server_close()
            for thread in threads:
                thread.join()

    def handler(self) -> type[BaseHTTPRequestHandler]:
        """What answers; an LFS server has another."""
        return HubHandler

    def add(self, name: str, files: dict[str, bytes | Content], **more: Any) -> Repo:
        contents = {n: c if isinstance(c, Content) else Content(c) for n, c in files.items()}
        repo = self.repos[name] = Repo(contents, **more)
        return repo

    def add_folder(self, name: str, folder: Path, **more: Any) -> Repo:
        return self.add(name, {p.name: p.read_bytes() for p in folder.iterdir()}, **more)

    def misbehaviour(self, name: str) -> Misbehaviour | None:
        with self.lock:
            for one in self.misbehaviours:
                if one.times > 0 and re.fullmatch(one.name, name):
                    if one.skip:
                        one.skip -= 1
                        return None
                    one.times -= 1
                    return one
        return None

    def requests(self, server: str = "", name: str = "") -> list[Seen]:
        return [s for s in self.seen if server in s.server and name in s.path]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, hub: FakeHub, kind: str) -> None:
        super().__init__(("127.0.0.1", 0), hub.handler())
        self.hub = hub
        self.kind = kind

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up early is nothing to tell."""


class HubHandler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 30

    def log_message(self, *args: Any) -> None:
        """Silence."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub = self.server.hub
        if hub.latency:
            time.sleep(hub.latency)
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        path = urlsplit(self.path).path
        with hub.lock:
            hub.seen.append(
                Seen(self.server.kind, self.command, path, self.headers.get("range", ""), token)
            )
        if self.server.kind == "storage":
            self._storage(unquote(path))
        elif path.startswith("/api/models/"):
            self._listing(path.removeprefix("/api/models/"), token)
        else:
            self._resolve(unquote(path), token)

    def _repo(self, name: str, token: str) -> Repo | None:
        repo = self.server.hub.repos.get(name)
        if token not in {"", TOKEN, GRANTED}:
            self._error(401, "", "Invalid credentials in Authorization header")
        elif repo is None or (repo.private and not token):
            # The Hub does not tell apart what is not there from what may not be seen.
            self._error(404 if token else 401, "RepoNotFound", "Repository not found")
        else:
            return repo
        return None

    def _listing(self, rest: str, token: str) -> None:
        if self._misbehaved("listing"):
            return
        name, _, revision = rest.partition("/revision/")
        repo = self._repo(unquote(name), token)
        if repo is None:
            return
        if unquote(revision or "main") not in {*repo.revisions, repo.commit}:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {unquote(revision)}")
            return
        # As the Hub, which compares the text: sizes and oids are told on request only.
        with_blobs = urlsplit(self.path).query == "blobs=true"
        siblings: list[dict[str, Any]] = [
            {"rfilename": n}
            if not with_blobs
            else {
                "rfilename": n,
                "size": c.size,
                "blobId": hashlib.sha1(n.encode()).hexdigest() if is_lfs(n, c) else oid(c, n),
                **(
                    {"lfs": {"sha256": oid(c, n), "size": c.size, "pointerSize": 135}}
                    if is_lfs(n, c)
                    else {}
                ),
            }
            for n, c in repo.files.items()
        ]
        answer = {"id": unquote(name), "sha": repo.commit, "siblings": siblings}
        self._send(200, json.dumps(answer).encode(), {"content-type": "application/json"})

    def _resolve(self, path: str, token: str) -> None:
        name, _, rest = path.removeprefix("/").partition("/resolve/")
        repo = self._repo(name, token)
        if repo is None:
            return
        for revision in (*repo.revisions, repo.commit):
            if rest.startswith(f"{revision}/"):
                file = rest.removeprefix(f"{revision}/")
                break
        else:
            self._error(404, "RevisionNotFound", "Invalid rev id")
            return
        if repo.gated and token != GRANTED:
            self._error(403 if token else 401, "GatedRepo", f"Access to model {name} is restricted")
            return
        content = repo.files.get(file)
        if content is None:
            self._error(404, "EntryNotFound", "Entry not found")
            return
        facts = {"x-repo-commit": repo.commit, "etag": f'"{oid(content, file)}"'}
        if is_lfs(file, content):
            if self._misbehaved(f"redirect:{file}"):
                return
            facts |= {"x-linked-size": str(content.size), "x-linked-etag": facts["etag"]}
            facts["location"] = f"{self.server.hub.storage}/{name}/{file}"
            self._send(302, b"", facts)
        else:
            self._file(file, content, facts)

    def _storage(self, path: str) -> None:
        name, _, file = path.removeprefix("/").rpartition("/")
        self._file(file, self.server.hub.repos[name].files[file], {})

    def _file(self, file: str, content: Content, facts: dict[str, str]) -> None:
        one = self.server.hub.misbehaviour(file)
        kind = one.kind if one else ""
        if one and (kind in _INSTEAD or kind.isdigit()):
            self._misbehave(one)
            return
        begin, end, status = 0, content.size, 200
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if wanted and kind != "ignore-range":
            begin, status = int(wanted[1]), 206
            end = min(content.size, int(wanted[2]) + 1 if wanted[2] else content.size)
            if begin >= content.size:
                self._send(416, b"", {"content-range": f"bytes */{content.size}"})
                return
            shift, more = int(kind == "wrong-range"), int(kind == "wrong-total")
            facts["content-range"] = (
                f"bytes {begin + shift}-{end - 1 + shift}/{content.size + more}"
            )
        facts = {"accept-ranges": "bytes", **facts}
        self._headers(status, end - begin, facts)
        if self.command == "HEAD":
            return
        most = (end - begin) // 2 if kind == "short" else end - begin
        step = 4 if kind == "drip" else 1 << 16
        for at in range(begin, begin + most, step):
            part = content.part(at, min(at + step, begin + most))
            self.wfile.write(part)
            with self.server.hub.lock:
                self.server.hub.sent += len(part)
            if kind == "drip" and self.server.hub.stop.wait(0.05):
                return
        if kind == "short":
            self.close_connection = True

    def _misbehaved(self, name: str) -> bool:
        one = self.server.hub.misbehaviour(name)
        if one:
            self._misbehave(one)
        return one is not None

    def _misbehave(self, one: Misbehaviour) -> None:
        if one.kind == "stall":
            self.server.hub.stop.wait(20)
            self.close_connection = True
        elif one.kind == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif one.kind == "loop":
            self._send(302, b"", {"location": self.path})
        elif one.kind == "html":
            page = b"<!DOCTYPE html><title>Sign in to the network</title>" + b" " * 5000
            self._send(200, page, {"content-type": "text/html"})
        elif one.kind == "garbage":
            self._send(200, b'{"sha": 1}', {})
        else:
            self._send(int(one.kind), b"no", one.headers)

    def _error(self, status: int, code: str, message: str) -> None:
        facts = {"x-error-message": message} | ({"x-error-code": code} if code else {})
        self._send(status, json.dumps({"error": message}).encode(), facts)

    def _send(self, status: int, body: bytes, facts: dict[str, str]) -> None:
        self._headers(status, len(body), facts)
        if self.command != "HEAD":
            self.wfile.write(body)
            with self.server.hub.lock:
                self.server.hub.sent += len(body)

    def _headers(self, status: int, length: int, facts: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(length), **facts}.items():
            self.send_header(name, value)
        self.end_headers()
