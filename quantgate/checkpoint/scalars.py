"""The few tensors whose values matter, read on request: shapes of packed weights, lone scales.

They are some bytes each, and the headers say where. Neighbours are read together: the order of the
safetensors library, by dtype and then by name, puts most of them side by side.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from quantgate.checkpoint.header import parse_header
from quantgate.checkpoint.model import Header
from quantgate.checkpoint.numbers import DECODED
from quantgate.checkpoint.raw import SourceError, UnreadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from quantgate.checkpoint.model import Tensor
    from quantgate.checkpoint.ranges import ReadRange
    from quantgate.checkpoint.raw import RawFile

MAX_BYTES: Final = 16
"""Bytes of a tensor that counts as a scalar: two numbers of 64 bits, four of 32."""

MAX_GAP: Final = 16_384
"""Bytes between two scalars that are read along rather than asked for apart."""

MAX_SPANS: Final = 64
"""Ranges per file; a file of the safetensors library needs one for each dtype."""

MAX_READ: Final = 16_000_000
"""Bytes read of one file."""

SHAPE: Final = "weight_shape"


class Scalars(NamedTuple):
    """Tensor → its bytes, and how many bytes were read to have them."""

    values: dict[str, bytes]
    bytes_read: int


class _Span(NamedTuple):
    """A range of the data area, and the scalars in it."""

    begin: int
    end: int
    tensors: list[Tensor]


def is_scalar(tensor: Tensor) -> bool:
    """Whether the tensor is one of those whose values are read."""
    leaf = tensor.name.rpartition(".")[2]
    wanted = leaf == SHAPE or "scale" in leaf
    return wanted and tensor.dtype in DECODED and 0 < tensor.nbytes <= MAX_BYTES


def read_scalars(
    files: Sequence[RawFile],
    read: ReadRange,
    each: Callable[[Callable[[RawFile], Scalars], Sequence[RawFile]], Iterable[Scalars]] = map,
) -> Scalars:
    """The scalars of all files whose headers are known.

    Args:
        files: The weight files.
        read: How to read a part of one.
        each: `map`, or that of a pool.

    Raises:
        SourceError: They lie too far apart or could not be had: what was asked for and could not
            be checked must not pass.
    """
    values: dict[str, bytes] = {}
    total = 0
    for found in each(partial(_of_file, read=read), files):
        values.update(found.values)
        total += found.bytes_read
    return Scalars(values, total)


def _of_file(file: RawFile, read: ReadRange) -> Scalars:
    if not isinstance(file.header, bytes):
        return Scalars({}, 0)  # a rule tells of it
    header = parse_header(file.header, file=file.name, file_size=file.size)
    if not isinstance(header, Header):
        return Scalars({}, 0)
    start = 8 + header.size
    spans = _spans(t for t in header.tensors if is_scalar(t) and start + t.end <= file.size)
    size = sum(span.end - span.begin for span in spans)
    if len(spans) > MAX_SPANS or size > MAX_READ:
        raise SourceError(
            f"The scales of {file.name!r} were not read: they lie too far apart ({size} bytes in "
            f"{len(spans)} places)."
        )
    values: dict[str, bytes] = {}
    for begin, end, tensors in spans:
        try:
            content = read(file.name, start + begin, start + end)
        except UnreadError as error:
            raise SourceError(
                f"The scales of {file.name!r} were not read: the file {error}. "
                "Run the check again later."
            ) from None
        values |= {t.name: content[t.begin - begin : t.end - begin] for t in tensors}
    return Scalars(values, size)


def _spans(tensors: Iterable[Tensor]) -> list[_Span]:
    """The ranges that hold these tensors, which come in the order of their offsets."""
    spans: list[_Span] = []
    for tensor in tensors:
        if spans and tensor.begin - spans[-1].end <= MAX_GAP:
            last = spans.pop()
            last.tensors.append(tensor)
            spans.append(last._replace(end=max(last.end, tensor.end)))
        else:
            spans.append(_Span(tensor.begin, tensor.end, [tensor]))
    return spans
