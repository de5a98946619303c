"""The safetensors header: 8 bytes of length (little-endian), then JSON, then the data area.

Whatever is wrong becomes a `Defect`, nothing raises. The reference is the safetensors library,
release 0.8.0 (safetensors/src/tensor.rs): what it refuses is refused here too. Where this parser
refuses more, the defect is marked `strict` and the reason stands in `STRICTER_ON_PURPOSE`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn

from quantgate.checkpoint.model import Defect, DefectKind, Header, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_HEADER: Final = 100_000_000
"""Longest header in bytes that safetensors reads (tensor.rs, MAX_HEADER_SIZE)."""

MAX_DEFECTS: Final = 1000
"""Defects kept per kind: a hostile header could otherwise yield one for every 40 bytes."""

DTYPE_BITS: Final = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}
"""Bits of one element, for every dtype that safetensors 0.8.0 reads."""

STRICTER_ON_PURPOSE: Final = {
    "duplicate-key": "safetensors keeps the last of two equal keys; the one meant is a guess.",
    "leading-space": "The format says that a header begins with '{'; safetensors skips space.",
    "array-entry": "safetensors reads ['U8', [1], [0, 1]] as a tensor; the format wants an object.",
    "object-dtype": "safetensors reads {'U8': null} as a dtype; the format wants a string.",
    "unprintable-name": "A tensor name with control or invisible characters misleads its reader.",
}
"""What safetensors accepts and quantgate does not, with the reason."""

_METADATA = "__metadata__"
_FIELDS = ("dtype", "shape", "data_offsets")
_U64 = 2**64 - 1
_ONLY_INT = frozenset({int})
_MAX_DEPTH = 127  # serde_json's recursion limit
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)")


def read_header(stream: BinaryIO, *, size: int, limit: int = MAX_HEADER) -> bytes | Defect:
    """Read the JSON of a safetensors file of `size` bytes, or say why it cannot be read.

    At most `8 + limit` bytes are read, and none that the file does not have.

    Raises:
        OSError: The stream cannot be read.
    """
    prefix = stream.read(8)
    if len(prefix) < 8:
        return Defect(DefectKind.MALFORMED, f"the file has {size} bytes, a header needs 8 or more")
    length = int.from_bytes(prefix, "little")
    if length > limit:
        return Defect(
            DefectKind.TOO_LARGE,
            f"the header claims {length} bytes, the limit is {limit}",
            strict=limit < MAX_HEADER and length <= MAX_HEADER,
        )
    cut = Defect(
        DefectKind.TRUNCATED, f"the header claims {length} bytes, the file ends after {size - 8}"
    )
    if length > size - 8:
        return cut
    blob = stream.read(length)
    return blob if len(blob) == length else cut


def parse_header(blob: bytes, *, file: str, file_size: int) -> Header | Defect:
    """Parse a header's JSON.

    Args:
        blob: The JSON, without the 8-byte length.
        file: File name, kept in the tensors.
        file_size: Size of the whole file in bytes.

    Returns:
        The header with all tensors that can be understood and all defects, or the one defect
        because of which nothing can be understood.
    """
    if len(blob) > MAX_HEADER:
        return Defect(
            DefectKind.TOO_LARGE, f"the header has {len(blob)} bytes, the limit is {MAX_HEADER}"
        )
    document = _load(blob)
    if isinstance(document, Defect):
        return document
    defects = _Defects()
    if not blob.startswith(b"{"):
        message = "there is white space before the header's '{'"
        defects.add(DefectKind.MALFORMED, message, strict=True)
    metadata = _metadata(document, defects)
    tensors = _tensors(document, file, defects)
    if not defects.lost:
        _check_layout(tensors, file_size - 8 - len(blob), defects)
    return Header(tuple(tensors), metadata, len(blob), tuple(defects.found))


class _Defects:
    """Collects defects. `lost` is set once an entry was left out because it makes no sense."""

    def __init__(self) -> None:
        self.found: list[Defect] = []
        self.lost = False
        self._counts: Counter[tuple[DefectKind, bool]] = Counter()

    def add(
        self, kind: DefectKind, message: str, tensor: str = "", *, strict: bool = False
    ) -> None:
        self._counts[kind, strict] += 1
        if self._counts[kind, strict] <= MAX_DEFECTS:
            self.found.append(Defect(kind, message, tensor, strict))


class _Repeating(dict[str, Any]):
    """A JSON object that has a key more than once; `pairs` are all its members."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    @property
    def repeated(self) -> set[str]:
        return {k for k, n in Counter(k for k, _ in self.pairs).items() if n > 1}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repeating(pairs)


def _members(document: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    return document.pairs if isinstance(document, _Repeating) else document.items()


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ValueError("number out of range")
    return value


def _int(text: str) -> int | float:
    # serde_json reads -0 as a float, and a float is no size.
    return -0.0 if text == "-0" else int(text)


def _load(blob: bytes) -> dict[str, Any] | Defect:
    """The header as an object, `_Repeating` where keys are repeated, or why it is none."""
    if blob.lstrip(b" \t\r\n")[:1] != b"{":
        return Defect(DefectKind.MALFORMED, "the header does not begin with '{'")
    try:
        text = blob.decode("utf-8")
        document = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_int if b"-0" in blob else None,
        )
    except UnicodeDecodeError as error:
        return Defect(DefectKind.MALFORMED, f"the header is not UTF-8 at byte {error.start}")
    except ValueError as error:
        return Defect(DefectKind.MALFORMED, f"the header is not JSON: {error}")
    except RecursionError:
        return Defect(DefectKind.MALFORMED, "the header is nested too deeply")
    if "\\u" in text and any(m[1] for m in _ESCAPE.finditer(text)):
        return Defect(DefectKind.MALFORMED, "the header has half a surrogate pair, not text")
    return document  # type: ignore[no-any-return]  # it begins with '{'


def _metadata(document: dict[str, Any], defects: _Defects) -> dict[str, str]:
    metadata = document.get(_METADATA)
    if isinstance(document, _Repeating) and _METADATA in document.repeated:
        defects.add(DefectKind.DUPLICATE_KEY, f"{_METADATA} occurs more than once")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        defects.add(DefectKind.MALFORMED, f"{_METADATA} is not an object")
        return {}
    if isinstance(metadata, _Repeating):
        message = f"{_METADATA} has a key more than once"
        defects.add(DefectKind.DUPLICATE_KEY, message, strict=True)
    if not all(isinstance(value, str) for _, value in _members(metadata)):
        defects.add(DefectKind.MALFORMED, f"{_METADATA} has a value that is not a string")
    return {k: v for k, v in metadata.items() if isinstance(v, str)}


def _tensors(document: dict[str, Any], file: str, defects: _Defects) -> list[Tensor]:
    """All understandable tensors in the order of their offsets; of equal names the last."""
    tensors: dict[str, Tensor] = {}
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
    for name, entry in _members(document):
        if name == _METADATA:
            continue
        tensor = _tensor(name, entry, file, defects, shapes)
        if tensor is None:
            defects.lost = True
        else:
            tensors[name] = tensor
        if not name.isprintable():
            message = "the tensor name has control or invisible characters"
            defects.add(DefectKind.MALFORMED, message, name, strict=True)
    if isinstance(document, _Repeating):
        message = "the tensor occurs more than once in the header"
        for name in sorted(document.repeated - {_METADATA}):
            defects.add(DefectKind.DUPLICATE_KEY, message, name, strict=True)
    return sorted(tensors.values(), key=lambda t: (t.begin, t.end))


def _tensor(
    name: str,
    entry: Any,
    file: str,
    defects: _Defects,
    shapes: dict[tuple[int, ...], tuple[int, ...]],
) -> Tensor | None:
    """The tensor of an entry. `shapes` are those seen before: a thousand tensors share five."""
    if isinstance(entry, list) and len(entry) == 3:
        message = "the tensor's entry is a list, not an object"
        defects.add(DefectKind.MALFORMED, message, name, strict=True)
        entry = dict(zip(_FIELDS, entry, strict=True))
    if not isinstance(entry, dict):
        defects.add(DefectKind.MALFORMED, "the tensor's entry is not an object", name)
        return None
    if isinstance(entry, _Repeating):
        twice = entry.repeated
        message = "the tensor's entry has a key more than once"
        strict = twice.isdisjoint(_FIELDS)
        defects.add(DefectKind.DUPLICATE_KEY, message, name, strict=strict)
    try:
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    except KeyError as error:
        defects.add(DefectKind.MALFORMED, f"the tensor's entry has no {error.args[0]}", name)
        return None
    if isinstance(dtype, dict) and list(_members(dtype)) == [(next(iter(dtype), ""), None)]:
        message = "the dtype is an object, not a string"
        defects.add(DefectKind.MALFORMED, message, name, strict=True)
        dtype = next(iter(dtype))
    if not isinstance(dtype, str):
        defects.add(DefectKind.MALFORMED, "the dtype is not a string", name)
        return None
    if not _sizes(shape):
        message = "the shape is not a list of numbers from 0 to 2^64-1"
        defects.add(DefectKind.MALFORMED, message, name)
        return None
    if not _sizes(offsets) or len(offsets) != 2:
        message = "data_offsets is not a pair of numbers from 0 to 2^64-1"
        defects.add(DefectKind.MALFORMED, message, name)
        return None
    if len(entry) > 3 and not all(_ignorable(v, 3) for k, v in _members(entry) if k not in _FIELDS):
        message = "the tensor's entry is nested too deeply or has a number out of range"
        defects.add(DefectKind.MALFORMED, message, name)
    if dtype not in DTYPE_BITS:
        message = f"safetensors does not know the dtype {dtype[:40]!r}"
        defects.add(DefectKind.UNKNOWN_DTYPE, message, name)
    size = tuple(shape)
    size = shapes.setdefault(size, size)
    return Tensor(sys.intern(name), sys.intern(dtype), size, offsets[0], offsets[1], file)


def _sizes(value: Any) -> bool:
    """Whether it is a list of unsigned 64-bit numbers."""
    # By `type`, since True is an int; without a loop in Python, since it runs twice per tensor.
    if type(value) is not list or not _ONLY_INT.issuperset(map(type, value)):
        return False
    return not value or (min(value) >= 0 and max(value) <= _U64)


def _ignorable(value: Any, depth: int) -> bool:
    """Whether serde_json would parse this value, which nobody looks at, at this depth."""
    todo = [(value, depth)]
    while todo:
        value, depth = todo.pop()
        if isinstance(value, dict | list):
            if depth > _MAX_DEPTH:
                return False
            inner: Iterable[Any] = value
            if isinstance(value, dict):
                inner = (v for _, v in _members(value))
            todo.extend((v, depth + 1) for v in inner)
        elif isinstance(value, int):
            try:
                float(value)
            except OverflowError:
                return False
    return True


def _check_layout(tensors: list[Tensor], data: int, defects: _Defects) -> None:
    """Check that the tensors fill the data area of `data` bytes without a gap, each in its size."""
    reached = 0
    for tensor in tensors:
        if tensor.end < tensor.begin:
            defects.add(DefectKind.OFFSETS, "the tensor ends before it begins", tensor.name)
            continue
        if tensor.begin > reached:
            message = f"there is a gap of {tensor.begin - reached} bytes before the tensor"
            defects.add(DefectKind.OFFSETS, message, tensor.name)
        elif tensor.begin < reached:
            message = f"the tensor overlaps the one before by {reached - tensor.begin} bytes"
            defects.add(DefectKind.OFFSETS, message, tensor.name)
        reached = max(reached, tensor.end)
        bits = DTYPE_BITS.get(tensor.dtype)
        if bits is not None:
            _check_size(tensor, bits, defects)
    if reached > data:
        message = f"the tensors need {reached} bytes of data, the file has {max(data, 0)}"
        defects.add(DefectKind.TRUNCATED, message)
    elif reached < data:
        message = f"the file has {data - reached} bytes after the last tensor"
        defects.add(DefectKind.TRAILING, message)


def _check_size(tensor: Tensor, bits: int, defects: _Defects) -> None:
    # Multiplied in this order and checked at every step, as safetensors does: [2^63, 4, 0] is
    # refused, [0, 2^63, 4] is not. It also keeps the numbers small for a shape of 100,000 sizes.
    elements = 1
    for size in tensor.shape:
        elements *= size
        if elements > _U64:
            break
    total = elements * bits
    if elements > _U64 or total > _U64:
        message = "the shape has more elements than a 64-bit number counts"
        defects.add(DefectKind.BYTE_SIZE, message, tensor.name)
    elif total % 8:
        message = f"{elements} elements of {bits} bits do not fill whole bytes"
        defects.add(DefectKind.BYTE_SIZE, message, tensor.name)
    elif total // 8 != tensor.nbytes:
        message = f"dtype and shape give {total // 8} bytes, the offsets {tensor.nbytes}"
        defects.add(DefectKind.BYTE_SIZE, message, tensor.name)
