"""The objects of a Git LFS server: where they are, asked of its batch API, and their bytes.

docs/api/batch.md and docs/api/basic-transfers.md of Git LFS.
"""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from quantgate.checkpoint.lfs_server import LfsServer, origin_of
from quantgate.checkpoint.raw import UnreadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from quantgate.checkpoint.pointer import Pointer
    from quantgate.checkpoint.transport import Transport

T = TypeVar("T")

MAX_BATCH: Final = 100
"""Objects of one batch request; GitHub and GitLab take at least as many."""

OTHER_CONTENT: Final = "came with other content: its hash differs"
"""Of a file whose bytes are not those that the pointer means."""

_MEDIA_TYPE = "application/vnd.git-lfs+json"
_MAX_ANSWER = 4_000_000  # bytes; a signed address is about 1 kB
# What a storage answers when a signed address has expired: S3 and Azure 403, others 400, 401, 410.
_EXPIRED = frozenset({400, 401, 403, 410})
# With most servers for an hour each: longer than any download, and an end to running in circles.
_MAX_RENEWALS = 24
_MAX_ADDRESS = 16_000  # of a signed address or a header; servers refuse longer ones
_MAX_GIVEN = 100  # headers
_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]{1,200}", re.ASCII)  # a token of RFC 9110, 5.6.2
# Set by the transport itself, or by nobody.
_OWN_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "range", "transfer-encoding"}
)


class _Action(NamedTuple):
    """Where an object can be had, and the headers to send there."""

    href: str
    headers: Mapping[str, str]


class LfsObjects:
    """What one server has. Thread-safe, but for `resolve`."""

    def __init__(self, server: LfsServer, transport: Transport) -> None:
        self.server = server
        self.transport = transport
        self._found: dict[Pointer, _Action | UnreadError] = {}
        self._renewals: dict[Pointer, int] = {}
        self._lock = threading.Lock()

    def get(self, pointer: Pointer, *, limit: int, span: tuple[int, int] | None = None) -> bytes:
        """An object or a part of it; its address is asked for anew once, if it has expired.

        Args:
            pointer: The object.
            limit: Most bytes that are read.
            span: Of a part, the first byte and the one behind the last.

        Raises:
            UnreadError: It could not be had.
        """
        return self._renewing(
            pointer,
            lambda action: self.transport.get(
                action.href, action.headers, limit=limit, size=pointer.size, span=span
            ),
        )

    def save(self, pointer: Pointer, write: Callable[[bytes, int], None]) -> None:
        """A whole object of any size, handed on as it comes.

        Args:
            pointer: The object.
            write: Takes bytes and where they stand, some of them more than once.

        Raises:
            UnreadError: It could not be had.
        """
        self._renewing(
            pointer,
            lambda action: self.transport.save(
                action.href, action.headers, size=pointer.size, write=write
            ),
        )

    def _renewing(self, pointer: Pointer, ask: Callable[[_Action], T]) -> T:
        """What is asked at an object's address, or at a new one if that has expired."""
        action = self._action(pointer)
        try:
            return ask(action)
        except UnreadError as error:
            if error.status not in _EXPIRED or not self._renew(pointer, action):
                raise
        return ask(self._action(pointer))

    def _action(self, pointer: Pointer) -> _Action:
        found = self._found.get(pointer)
        if found is None:  # for scalars of a file whose header came from the cache
            self.resolve([pointer])
            found = self._found[pointer]
        if isinstance(found, UnreadError):
            raise found
        return found

    def _renew(self, pointer: Pointer, stale: _Action) -> bool:
        """Whether there is another address than the stale one."""
        with self._lock:  # of many parts of one object, one asks, and the others wait for it
            if self._found.get(pointer) is not stale:
                return True
            count = self._renewals.get(pointer, 0)
            if count == _MAX_RENEWALS:
                return False
            self._renewals[pointer] = count + 1
            self.resolve([pointer])
        return True

    def resolve(self, pointers: Iterable[Pointer]) -> None:
        """Ask where objects are; what cannot be had is kept as the error that it is."""
        wanted = []
        for pointer in sorted(set(pointers)):
            if pointer.oid:
                wanted.append(pointer)
            else:
                self._found[pointer] = UnreadError("has no oid that makes sense")
        for at in range(0, len(wanted), MAX_BATCH):
            self._found.update(self._ask(wanted[at : at + MAX_BATCH]))

    def _ask(self, pointers: Sequence[Pointer]) -> dict[Pointer, _Action | UnreadError]:
        """One batch request."""
        body = {
            "operation": "download",
            "transfers": ["basic"],
            "objects": [{"oid": p.oid, "size": p.size} for p in pointers],
        }
        headers = {"accept": _MEDIA_TYPE, "content-type": _MEDIA_TYPE}
        if self.server.authorization:
            headers["authorization"] = self.server.authorization
        try:
            content = self.transport.post(
                f"{self.server.url}/objects/batch",
                headers,
                json.dumps(body).encode(),
                limit=_MAX_ANSWER,
            )
            answers = _answers(content)
        except UnreadError as error:
            refused = self._refused(error)
            return dict.fromkeys(pointers, refused)
        return {p: self._found_in(answers.get(p.oid), p) for p in pointers}

    def _refused(self, error: UnreadError) -> UnreadError:
        """What it means that the server would not talk at all."""
        told = f": {error.text}" if error.text else ""
        host = self.server.host
        if error.status in {401, 403, 404}:
            access = (
                "the token may not read the repository there"
                if self.server.authorization
                else "without a token"
            )
            message = f"was refused by {host} ({error.status}{told}), {access}"
        elif error.status == 509:
            message = f"was refused by {host}: its bandwidth is used up{told}"
        else:
            message = f"was not looked up at {host}, as the answer {error}"
        return UnreadError(message, status=error.status)

    def _found_in(
        self, answer: Mapping[str, Any] | None, pointer: Pointer
    ) -> _Action | UnreadError:
        """What the server says of one object."""
        host = self.server.host
        if answer is None:
            return UnreadError(f"was left out of the answer of {host}")
        error = answer.get("error")
        if error is not None:
            return _object_error(error, host)
        if answer.get("size", pointer.size) != pointer.size:
            told = ascii(answer["size"])[:20]
            return UnreadError(f"has {told} bytes at {host}, and {pointer.size} in the pointer")
        try:
            download = answer["actions"]["download"]
            href, given = download["href"], download.get("header") or {}
            headers = {k: v for k, v in given.items() if isinstance(v, str)}
        except (AttributeError, KeyError, TypeError):
            return UnreadError(f"cannot be downloaded, says {host}")
        origin, own = origin_of(href) if _is_plain(href) else "", origin_of(self.server.url)
        if not origin or (own.startswith("https:") and not origin.startswith("https:")):
            return UnreadError(f"has no safe address: {host} named another than https")
        if len(headers) > _MAX_GIVEN or not all(
            _NAME.fullmatch(k) and _is_plain(v) for k, v in headers.items()
        ):
            return UnreadError(f"cannot be downloaded: {host} named headers that are none")
        headers = {k: v for k, v in headers.items() if k.lower() not in _OWN_HEADERS}
        signed = answer.get("authenticated") is True or "authorization" in map(str.lower, headers)
        if origin == own and not signed and self.server.authorization:
            # As Git LFS does, on the server's own host and nowhere else.
            headers["authorization"] = self.server.authorization
        return _Action(href, headers)


def _is_plain(text: object) -> bool:
    """Whether it can be sent as an address or a header."""
    return (
        isinstance(text, str)
        and len(text) <= _MAX_ADDRESS
        and text.isascii()
        and text.isprintable()
    )


def _answers(content: bytes) -> dict[str, Mapping[str, Any]]:
    """The objects of an answer of the batch API by oid.

    Raises:
        UnreadError: It is no such answer, or for another way of transfer.
    """
    try:
        answer = json.loads(content)
        if answer.get("transfer", "basic") != "basic":
            raise UnreadError("is for a kind of transfer that was not asked for")
        return {entry["oid"]: entry for entry in answer["objects"] if isinstance(entry, dict)}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise UnreadError("is not that of an LFS server") from None


def _object_error(error: object, host: str) -> UnreadError:
    """docs/api/batch.md, "Response Errors", of an object."""
    code, text = (
        (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
    )
    code = code if type(code) is int else 0
    told = " ".join(text.split())[:200] if isinstance(text, str) and text.isprintable() else ""
    words = {
        403: "may not be read there",
        404: f"is not there: whoever committed the pointer has not pushed the file to {host}",
        409: "has another hash there",
        410: "was removed there",
        422: "is not accepted there as an object",
        429: "was refused there: too many requests",
    }.get(code, "cannot be had there")
    answer = f"{code}, {told}" if told else str(code)
    return UnreadError(f"{words} ({host} answered {answer})", status=code)
