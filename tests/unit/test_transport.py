"""Answers that no server on loopback gives: of another scheme, without an end, in single bytes."""

from __future__ import annotations

import importlib
import itertools
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from huggingface_hub.errors import HTTPError

from quantgate.checkpoint import transport as transport_module
from quantgate.checkpoint.raw import UnreadError
from quantgate.checkpoint.transport import MAX_WAIT, Limits, Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The client that huggingface_hub is made of, whichever that is.
client = importlib.import_module(HTTPError.__module__.partition(".")[0])
QUICK = Limits(deadline=60, tries=2, backoff=0.01)
ADDRESS = "https://storage.example/file"


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], Any]], None]:
    """Has requests answered by a function, in the real client."""

    def install(answer: Callable[[Any], Any]) -> None:
        session = client.Client(transport=client.MockTransport(answer))
        monkeypatch.setattr(transport_module, "get_session", lambda: session)

    return install


def test_single_bytes_take_no_more_memory(answered: Any) -> None:
    """A server that sends a body byte by byte costs the body, not an object for each."""
    size = 200_000
    parts = [bytes([i % 256, 0]) for i in range(size // 2)]
    answered(lambda _: client.Response(200, content=iter(parts)))
    tracemalloc.start()
    try:
        content = Transport(QUICK).get(ADDRESS, {}, limit=size, size=size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert content == b"".join(parts)
    assert peak < 5 * size


@pytest.mark.parametrize(
    "location", ["http://storage.example/file", "http://elsewhere.example/", "ftp://e.example/"]
)
def test_no_redirect_leads_out_of_https(answered: Any, location: str) -> None:
    """What was asked for over an encrypted connection comes over one, or not at all."""
    asked = []

    def answer(request: Any) -> Any:
        asked.append(request.url.scheme)
        return client.Response(302, headers={"location": location}, content=iter([]))

    answered(answer)
    with pytest.raises(UnreadError, match="redirected to an address without https"):
        Transport(QUICK).get(ADDRESS, {}, limit=10)
    assert set(asked) == {"https"}


def test_a_redirect_without_an_end(answered: Any) -> None:
    """The body of a redirect is read for a while only."""
    taken = []

    def body() -> Iterator[bytes]:
        for number in itertools.count():
            taken.append(number)
            yield bytes(10_000)

    def answer(request: Any) -> Any:
        if request.url.path == "/file":
            return client.Response(307, headers={"location": "/other"}, content=body())
        return client.Response(200, content=iter([b"good"]))

    answered(answer)
    transport = Transport(QUICK)
    assert transport.get(ADDRESS, {}, limit=10) == b"good"
    assert len(taken) < 10
    assert transport.requests == 2


def test_an_error_that_is_told_without_an_end(answered: Any) -> None:
    """An error's message is no way to keep the gate waiting."""
    taken = []

    def body() -> Iterator[bytes]:
        for number in itertools.count():
            taken.append(number)
            yield bytes(100)

    kind = {"content-type": "application/vnd.git-lfs+json"}
    answered(lambda _: client.Response(404, headers=kind, content=body()))
    with pytest.raises(UnreadError, match="is not there"):
        Transport(QUICK).get(ADDRESS, {}, limit=10)
    assert len(taken) < 100


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        ("https://storage.example/" + "a" * 70_000, {}),
        ("http://[v1.a]/x", {}),
        ("https://" + "\u4e2d" * 80 + "/x", {}),
        ("https://a\u0000b/", {}),
        ("https://storage.example:x/", {}),
        (ADDRESS, {"x": "\u4e2d"}),
        (ADDRESS, {"\u4e2d": "x"}),
    ],
)
def test_what_cannot_be_sent(answered: Any, address: str, headers: dict[str, str]) -> None:
    """An address or a header that is none is an error of this file, whoever finds it."""
    answered(lambda _: client.Response(200, content=iter([b"good"])))
    with pytest.raises(UnreadError, match=r"^could not be fetched: "):
        Transport(QUICK).get(address, headers, limit=10)


@pytest.mark.parametrize("location", ["http://[::1", "https://" + "\u4e2d" * 80, "//:x/"])
def test_a_redirect_to_no_address(answered: Any, location: str) -> None:
    """Such an answer is an error of this file as well."""
    head = [(b"location", location.encode())]
    answered(lambda _: client.Response(302, headers=head, content=iter([])))
    with pytest.raises(UnreadError, match=r"^could not be fetched: "):
        Transport(QUICK).get(ADDRESS, {}, limit=10)


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "Mon, 99999999999999999999 Jan 2024 00:00:00 GMT"},
        {"retry-after": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"},
        {"ratelimit": '"api";r=0;t=' + "9" * 5000},
    ],
)
def test_waits_that_make_no_sense(answered: Any, headers: dict[str, str]) -> None:
    """They are no waits, and the request is tried again as it would be without them."""
    answered(lambda _: client.Response(429, headers=headers))
    with pytest.raises(UnreadError, match="too many requests"):
        Transport(QUICK).get(ADDRESS, {}, limit=10)


def test_a_wait_that_is_too_long(answered: Any) -> None:
    """However long a model may take, a server cannot keep the gate waiting for hours."""
    answered(lambda _: client.Response(503, headers={"retry-after": str(int(MAX_WAIT) + 1)}))
    with pytest.raises(UnreadError, match="asks to wait 301 s, which is too long"):
        Transport(Limits(deadline=10**6)).get(ADDRESS, {}, limit=10)


def test_a_whole_file_is_saved_anew_after_a_break(answered: Any) -> None:
    """A file that breaks off begins again, and what it has too much is not taken."""
    saved = bytearray(6)

    def write(content: bytes, at: int) -> None:
        saved[at : at + len(content)] = content

    answers = iter([[b"abc"], [b"de", b"f", b"ghi"]])
    answered(lambda _: client.Response(200, content=iter(next(answers))))
    Transport(QUICK).save(ADDRESS, {}, size=6, write=write)
    assert bytes(saved) == b"defghi"

    answers = iter([[b"1234", b"5678"]])
    with pytest.raises(UnreadError, match="is larger than 6 bytes"):
        Transport(QUICK).save(ADDRESS, {}, size=6, write=write)
    assert bytes(saved) == b"123456"


def test_what_is_stopped_asks_for_nothing(answered: Any) -> None:
    """After an error, others do not go on, nor wait for their turn."""
    transport = Transport(QUICK)
    with pytest.raises(KeyboardInterrupt), transport.pool("test"):
        raise KeyboardInterrupt
    answered(lambda _: pytest.fail("asked"))
    with pytest.raises(UnreadError, match="was given up"):
        transport.get(ADDRESS, {}, limit=10)
