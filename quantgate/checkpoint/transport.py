"""HTTP for files far away: whole files and ranges of them, checked, counted, bounded.

The session is huggingface_hub's, which knows proxies and certificates and takes the token off a
redirect to another host. Its own retry helpers are not used: they sleep for as long as a server
says, each thread for itself, and here a model has a deadline and all its requests wait together.
"""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

# HTTPError is the root of all that the session raises, whichever httpx it is made of.
from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import get_session

from quantgate.checkpoint.answers import (
    PassingError,
    check_encoding,
    check_range,
    check_whole,
    length_of,
    redirected,
    refused,
    short,
    words,
)
from quantgate.checkpoint.raw import UnreadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from concurrent.futures import Executor

T = TypeVar("T")

MAX_SKIP: Final = 1_000_000
"""Bytes before a range that are read and dropped where a server ignores the range."""

MAX_WAIT: Final = 300.0
"""Seconds that a server may ask to be left alone, however long a model may take."""

_MAX_ERROR = 4096
_MAX_REDIRECT = 65_536  # bytes of its body, which are read so that the connection can be kept
_MAX_REDIRECTS = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """How hard to try, for one model.

    Attributes:
        deadline: Seconds for everything.
        stall: Seconds without a byte after which a connection is given up.
        tries: Requests for the same range, at least 1.
        backoff: Seconds before the second try, doubled for each further one, at most 8.
        workers: Requests at a time.
    """

    deadline: float = 300.0
    stall: float = 10.0
    tries: int = 5
    backoff: float = 1.0
    workers: int = 16


class RangeIgnoredError(UnreadError):
    """The server sends whole files only, and the part lies too far inside of one."""


class _Request(NamedTuple):
    """What is asked for."""

    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    head: bool = False
    span: tuple[int, int] | None = None

    @property
    def method(self) -> str:
        if self.head:
            return "HEAD"
        return "GET" if self.body is None else "POST"

    def made(self, timeout: float) -> Callable[[Any], Any]:
        """Makes the request of a session."""
        # As they are stored: a range of a compressed answer would be another range.
        sent = {**self.headers, "accept-encoding": "identity"}
        if self.span is not None:
            sent["range"] = f"bytes={self.span[0]}-{self.span[1] - 1}"
        return lambda session: session.build_request(
            self.method, self.url, headers=sent, content=self.body, timeout=timeout
        )


class Transport:
    """Requests of one model. Thread-safe; `bytes_read` and `requests` count what went by.

    `requests` counts redirects and repeated tries, `bytes_read` the bodies as they were received.
    """

    def __init__(self, limits: Limits = Limits()) -> None:
        self.limits = limits
        self.bytes_read = 0
        self.requests = 0
        self._until = time.monotonic() + limits.deadline
        self._lock = threading.Lock()
        self._resume = 0.0  # when requests may go on after the server asked to wait
        self._stopped = ""  # why nothing is asked any more
        self._ended = threading.Event()  # nor is what is under way waited for

    def stop(self) -> None:
        """Give up everything, also what is under way: a request ends within a stall."""
        self._ended.set()

    @contextmanager
    def pool(self, name: str) -> Iterator[Executor]:
        """Threads for requests. If the block raises, those under way are given up."""
        pool = ThreadPoolExecutor(self.limits.workers, name)
        try:
            yield pool
        except BaseException:
            self.stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def get(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        limit: int,
        size: int | None = None,
        span: tuple[int, int] | None = None,
    ) -> bytes:
        """A file, or the bytes `span[0]` to `span[1]` (exclusive) of it: so many, or an error.

        Args:
            url: Where it is.
            headers: Sent with the request; `Authorization` goes to no other host.
            limit: Most bytes that are read.
            size: Bytes of the whole file, where known: another number is an error.
            span: The range, not empty.

        Raises:
            UnreadError: They could not be had.
        """
        return self._patiently(
            _Request(url, headers, span=span), lambda r: self._receive(r, limit, size, span)
        )

    def save(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        size: int,
        write: Callable[[bytes, int], None],
    ) -> None:
        """A whole file, handed on as it comes; anew from its begin with every try.

        Args:
            url: Where it is.
            headers: As of `get`.
            size: Its bytes: another number is an error.
            write: Takes bytes and where they stand in the file.

        Raises:
            UnreadError: It could not be had.
        """

        def receive(response: Any) -> None:
            check_whole(response)
            got = 0
            for part in self._parts(response):
                kept = part[: size - got]
                write(kept, got)
                got += len(part)
                if got > size:
                    raise UnreadError(f"is larger than {size} bytes")
            if got != size:
                raise PassingError(short(got, size))

        self._patiently(_Request(url, headers), receive)

    def size(self, url: str, headers: Mapping[str, str]) -> int:
        """The bytes of a file, as the server tells them without sending it.

        Raises:
            UnreadError: It is not there, or the server does not tell.
        """
        return self._patiently(_Request(url, headers, head=True), length_of)

    def post(self, url: str, headers: Mapping[str, str], body: bytes, *, limit: int) -> bytes:
        """The answer to a question that changes nothing, and so may be asked again.

        Args:
            url: Whom to ask.
            headers: Sent with the request; `Authorization` goes to no other host.
            body: The question.
            limit: Most bytes of the answer that are read; a longer one is an error.

        Raises:
            UnreadError: There was no answer.
        """
        return self._patiently(
            _Request(url, headers, body), lambda r: self._receive(r, limit, None, None)
        )

    def _patiently(self, request: _Request, receive: Callable[[Any], T]) -> T:
        for attempt in range(self.limits.tries):
            self._wait_for_turn()
            try:
                return self._try(request, receive)
            except PassingError as error:
                last: UnreadError = error
                wait = error.wait
            except OfflineModeIsEnabled:
                raise UnreadError("was not asked for: HF_HUB_OFFLINE is set") from None
            except HTTPError as error:
                last = UnreadError(f"could not be fetched: {words(error)}")
                wait = None
            if wait is None:
                wait = min(8.0, self.limits.backoff * 2**attempt)
                if attempt + 1 < self.limits.tries:
                    self._sleep(wait)
            else:
                with self._lock:
                    self._resume = max(self._resume, time.monotonic() + wait)
        if last.status == 429:
            self._stop(last)
        raise last

    def _wait_for_turn(self) -> None:
        with self._lock:
            stopped, resume = self._stopped, self._resume
        if stopped:
            raise UnreadError(stopped)
        seconds = resume - time.monotonic()
        if seconds > min(self._until - time.monotonic(), MAX_WAIT):
            too_long = self._too_long() if seconds <= MAX_WAIT else "which is too long"
            message = f"was given up: the server asks to wait {seconds:.0f} s, {too_long}"
            raise self._stop(UnreadError(message, status=429))
        self._sleep(seconds)

    def _sleep(self, seconds: float) -> None:
        if seconds > self._until - time.monotonic():
            raise self._stop(UnreadError(self._late()))
        if seconds > 0:
            self._ended.wait(seconds)

    def _stop(self, why: UnreadError) -> UnreadError:
        with self._lock:
            self._stopped = self._stopped or str(why)
        return why

    def _too_long(self) -> str:
        return f"longer than the {self.limits.deadline:g} s that a model may take"

    def _late(self) -> str:
        return f"was given up: fetching takes {self._too_long()}"

    def _left(self) -> float:
        if self._ended.is_set():
            raise UnreadError("was given up, as others were")
        left = self._until - time.monotonic()
        if left <= 0:
            raise self._stop(UnreadError(self._late()))
        return left

    def _try(self, request: _Request, receive: Callable[[Any], T]) -> T:
        try:
            with self._answer(request) as response:
                if response.status_code not in {200, 206}:
                    raise refused(response, self._told(response))
                return receive(response)
        except HTTPError:
            if time.monotonic() >= self._until:
                raise self._stop(UnreadError(self._late())) from None
            raise

    @contextmanager
    def _answer(self, request: _Request) -> Iterator[Any]:
        """The head of the answer behind all redirects, its body to come."""
        response = self._send(request.made(min(self.limits.stall, self._left())))
        try:
            for _ in range(_MAX_REDIRECTS):
                if not response.has_redirect_location:
                    break
                self._body(response, _MAX_REDIRECT)
                response.close()
                self._left()
                response = self._send(redirected(response))
            else:
                raise UnreadError("could not be fetched: too many redirects")
            yield response
        finally:
            response.close()
            with self._lock:
                self.bytes_read += response.num_bytes_downloaded

    def _send(self, make: Callable[[Any], Any]) -> Any:
        """Send a request without following redirects.

        Raises:
            UnreadError: It is none that can be sent.
        """
        session = get_session()
        try:
            response = session.send(make(session), stream=True, follow_redirects=False)
        except (HTTPError, OfflineModeIsEnabled, UnreadError):
            raise
        except Exception as error:  # of an address or a header that is none, each part has its own
            raise UnreadError(f"could not be fetched: {words(error)}") from None
        with self._lock:
            self.requests += 1
        return response

    def _receive(
        self, response: Any, limit: int, size: int | None, span: tuple[int, int] | None
    ) -> bytes:
        if span is None:
            check_whole(response)
            content = self._body(response, min(limit, size if size is not None else limit) + 1)
            if len(content) > limit:
                raise UnreadError(f"is larger than {limit} bytes")
            if size is not None and len(content) != size:
                raise PassingError(short(len(content), size))
            return content
        check_encoding(response)
        begin, end = span
        skipped = 0
        if response.status_code == 206:
            check_range(response.headers.get("content-range", ""), span, size)
        else:
            # The range was ignored. What is wanted is near the begin, so the rest is cut off.
            if begin > MAX_SKIP:
                raise RangeIgnoredError("lies on a server that ignores the Range of a request")
            skipped = begin
        content = self._body(response, skipped + end - begin)[skipped:]
        if len(content) != end - begin:
            raise PassingError(short(len(content), end - begin))
        return content

    def _body(self, response: Any, most: int) -> bytes:
        content = bytearray()  # not a list: a server may send single bytes
        for part in self._parts(response):
            content += part
            if len(content) >= most:
                break
        return bytes(content[:most])

    def _parts(self, response: Any) -> Iterator[bytes]:
        """What comes, for as long as there is time."""
        for part in response.iter_raw():
            self._left()
            yield part

    def _told(self, response: Any) -> str:
        """The message of an LFS server in the body of its answer; empty if there is none."""
        if "git-lfs+json" not in response.headers.get("content-type", ""):
            return ""
        try:
            message = json.loads(self._body(response, _MAX_ERROR))["message"]
        except (HTTPError, KeyError, RecursionError, TypeError, ValueError):
            return ""
        return message if isinstance(message, str) and message.isprintable() else ""
