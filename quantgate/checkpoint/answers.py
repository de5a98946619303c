"""What an answer of a server means: the file that was asked for, or why it is not."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from huggingface_hub.utils import parse_ratelimit_headers

from quantgate.checkpoint.raw import UnreadError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TRY_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Answers that may be others in a moment; huggingface_hub tries again after the same."""


class PassingError(UnreadError):
    """An error that may not occur again. `wait` is how many seconds the server asks for."""

    wait: float | None = None


def redirected(response: Any) -> Callable[[Any], Any]:
    """Makes the request that a redirect asks for.

    Raises:
        UnreadError: It leads to no address, or from an encrypted one to one that is not.
    """
    request = response.next_request
    if request is None:
        raise UnreadError("could not be fetched: it was redirected to an address that is none")
    if response.url.scheme == "https" and request.url.scheme != "https":
        raise UnreadError("could not be fetched: it was redirected to an address without https")
    return lambda _: request


def check_whole(response: Any) -> None:
    """Refuse a part of a file, or a compressed one.

    Raises:
        UnreadError: It is one.
    """
    if response.status_code == 206:
        raise UnreadError("came in part, which was not asked for")
    check_encoding(response)


def check_encoding(response: Any) -> None:
    """Refuse what is not the bytes as they are stored.

    Raises:
        UnreadError: It is compressed.
    """
    if response.headers.get("content-encoding", "identity") != "identity":
        raise UnreadError("came compressed, which was not asked for")


def length_of(response: Any) -> int:
    """What a server says of a file that it was not asked for: its bytes."""
    check_whole(response)
    if response.headers.get("content-type", "").startswith("text/html"):
        # What many servers show for whatever is not there.
        raise UnreadError("is a web page there", status=404)
    length = response.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) <= 18):
        raise UnreadError("has no length that the server would tell")
    return int(length)


def short(got: int, wanted: int) -> str:
    """What to say of a body that ended too early."""
    return f"came incomplete: {got} of {wanted} bytes"


def check_range(header: str, span: tuple[int, int], size: int | None) -> None:
    """`Content-Range: bytes 0-99/1234`: it must be what was asked for, of the file that is meant.

    Raises:
        UnreadError: It is not.
    """
    begin, end = span
    unit, _, rest = header.strip().partition(" ")
    where, _, total = rest.partition("/")
    if unit.lower() != "bytes" or where != f"{begin}-{end - 1}":
        got = f"the Content-Range {header[:60]!r}" if header else "no Content-Range"
        raise UnreadError(f"was asked for the bytes {begin}-{end - 1}, and came with {got}")
    if size is not None and total not in {"*", str(size)}:
        raise UnreadError(f"has {total[:20]} bytes on the server, and {size} in the listing")


def refused(response: Any, told: str) -> UnreadError:
    """What an answer other than the file means; `told` is an LFS server's message."""
    status = response.status_code
    code = response.headers.get("x-error-code", "")[:40]
    text = " ".join((response.headers.get("x-error-message") or told).split())[:200]
    error = PassingError if status in TRY_AGAIN else UnreadError
    name = {
        401: "needs a token",
        403: "may not be read with this token",
        404: "is not there",
        416: "is shorter on the server than in the listing",
        429: "was refused again and again: too many requests",
    }.get(status, "could not be fetched")
    answer = f"the server answered {status}" + (f", {text}" if text else "")
    found = error(f"{name} ({answer})", status=status, code=code, text=text)
    if isinstance(found, PassingError):
        found.wait = _asked_to_wait(status, response.headers)
    return found


def _asked_to_wait(status: int, headers: Mapping[str, str]) -> float | None:
    """Seconds that the server wants to be left alone, None if it does not say."""
    try:
        limit = parse_ratelimit_headers(headers) if status == 429 else None
    except ValueError:  # a number of thousands of digits
        limit = None
    if limit is not None and limit.remaining == 0:
        return limit.reset_in_seconds
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        until = parsedate_to_datetime(value)
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        return max(0.0, (until - datetime.now(UTC)).total_seconds())
    except (OverflowError, ValueError):
        return None


def words(error: Exception) -> str:
    """What to say of an error of the session's."""
    kind = type(error).__name__
    known = {
        "ReadTimeout": "the server stalled",
        "ConnectTimeout": "the server cannot be reached",
        "ConnectError": "the server cannot be reached",
        "ReadError": "the connection broke off",
        "RemoteProtocolError": "the connection broke off",
        "TooManyRedirects": "too many redirects",
    }
    return known.get(kind, kind)
