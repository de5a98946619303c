"""The header parser, alone and against the safetensors library."""

from __future__ import annotations

import io
import json
import time

import pytest
import safetensors

from quantgate.checkpoint import Defect, DefectKind, Header
from quantgate.checkpoint.header import (
    DTYPE_BITS,
    MAX_DEFECTS,
    MAX_HEADER,
    STRICTER_ON_PURPOSE,
    parse_header,
    read_header,
)
from tests.support.containers import agree, container, defects, entry, library_accepts, parse


def test_reads_tensors_in_the_order_of_their_offsets():
    """Tensors come sorted by offset with all their facts, whatever the order in the JSON."""
    raw = container(
        {
            "b": entry("F4", (2, 4), (6, 10)),
            "__metadata__": {"format": "pt"},
            "a": entry("BF16", (3,), (0, 6)),
        },
        10,
    )
    header = parse(raw)
    assert isinstance(header, Header)
    assert header.defects == ()
    assert header.metadata == {"format": "pt"}
    assert header.size == len(raw) - 18
    assert [(t.name, t.dtype, t.shape, t.begin, t.end, t.file) for t in header.tensors] == [
        ("a", "BF16", (3,), 0, 6, "x.safetensors"),
        ("b", "F4", (2, 4), 6, 10, "x.safetensors"),
    ]


@pytest.mark.parametrize("dtype", DTYPE_BITS)
def test_every_dtype_is_the_librarys(dtype):
    """Eight elements of every dtype take as many bytes as the library says."""
    bits = DTYPE_BITS[dtype]
    assert agree(container({"a": entry(dtype, (8,), (0, bits))}, bits))
    assert not agree(container({"a": entry(dtype, (8,), (0, bits + 1))}, bits + 1))
    assert not agree(container({"a": entry(dtype, (8,), (0, bits - 1))}, bits - 1))


def test_knows_all_dtypes_of_the_library():
    """The table has neither more nor fewer dtypes than the library's own error message lists."""
    with pytest.raises(safetensors.SafetensorError) as error:
        safetensors.deserialize(container({"a": entry("F5")}, 1))
    listed = str(error.value).partition("expected one of")[2]
    assert {part for part in listed.split("`") if part.isupper() or "_" in part} == set(DTYPE_BITS)


U8 = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'


def one(name: str) -> str:
    """A header with one tensor of one byte, its name as it stands in the JSON."""
    return f'{{"{name}":{U8}}}'


def within(members: str) -> str:
    """The same, with more members at the start of its entry."""
    return f'{{"a":{{{members},{U8[1:]}}}'


def twice(first: str, second: str) -> str:
    """A header with two entries of the same name."""
    return f'{{"a":{first},"a":{second}}}'


BROKEN = {
    "no bytes": (b"", "malformed"),
    "seven bytes": (b"\x02\0\0\0\0\0\0", "malformed"),
    "length only": (bytes(8), "malformed"),
    "length 2^63": ((2**63).to_bytes(8, "little") + b"{}", "too-large"),
    "length above the limit": ((MAX_HEADER + 1).to_bytes(8, "little"), "too-large"),
    "length at the limit": (MAX_HEADER.to_bytes(8, "little") + b"{}", "truncated"),
    "header cut": (b"\x09\0\0\0\0\0\0\0{}", "truncated"),
    "a list": (container("[]"), "malformed"),
    "null": (container("null"), "malformed"),
    "half an object": (container('{"a":'), "malformed"),
    "text after the object": (container("{}x"), "malformed"),
    "NUL after the object": (container("{}\0"), "malformed"),
    "byte order mark": (container("\ufeff{}"), "malformed"),
    "not UTF-8": (container(b'{"\xff":1}'), "malformed"),
    "encoded surrogate": (container('{"\ud800":1}'), "malformed"),
    "lone surrogate": (container(one('\\ud800'), 1), "malformed"),
    "two high surrogates": (container(one('\\uD83D\\uD83D'), 1), "malformed"),
    "low surrogate first": (container(one('\\udc00\\ud800'), 1), "malformed"),
    "raw newline in a name": (container(one('\n'), 1), "malformed"),
    "NaN": (container(within('"x":NaN'), 1), "malformed"),
    "1e999": (container(within('"x":1e999'), 1), "malformed"),
    "number of 310 digits": (container(within('"x":1' + "0" * 309), 1), "malformed"),
    "number of 5,000 digits": (
        container(within('"x":1' + "0" * 5000), 1),
        "malformed",
    ),
    "deep": (container(within('"x":' + "[" * 126 + "]" * 126), 1), "malformed"),
    "very deep": (container('{"a":' + "[" * 100_000), "malformed"),
    "deep metadata": (container('{"__metadata__":' + '{"a":' * 100_000), "malformed"),
    "entry null": (container('{"a":null}'), "malformed"),
    "entry text": (container('{"a":"U8"}'), "malformed"),
    "entry empty": (container('{"a":{}}'), "malformed"),
    "list of four": (container('{"a":["U8",[1],[0,1],0]}', 1), "malformed"),
    "list, bad shape": (container('{"a":["U8",[true],[0,1]]}', 1), "malformed"),
    "object dtype, not null": (
        container({"a": {**entry(), "dtype": {"U8": []}}}, 1),
        "malformed",
    ),
    "dtype number": (container({"a": {**entry(), "dtype": 8}}, 1), "malformed"),
    "dtype in small letters": (container({"a": entry("u8")}, 1), "unknown-dtype"),
    "dtype of torch": (container({"a": entry("F8_E4M3FN")}, 1), "unknown-dtype"),
    "shape null": (container({"a": {**entry(), "shape": None}}, 1), "malformed"),
    "shape true": (container({"a": entry(shape=[True])}, 1), "malformed"),
    "shape 1.0": (container({"a": entry(shape=[1.0])}, 1), "malformed"),
    "shape -1": (container({"a": entry(shape=[-1])}, 1), "malformed"),
    "shape -0": (container('{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}'), "malformed"),
    "shape 2^64": (container({"a": entry(shape=[2**64])}, 1), "malformed"),
    "shape 2^64-1": (container({"a": entry(shape=[2**64 - 1])}, 1), "byte-size"),
    "shape overflow before 0": (container({"a": entry("U8", [2**63, 2, 0], (0, 0))}), "byte-size"),
    "bits overflow": (container({"a": entry("F64", [2**62], (0, 0))}), "byte-size"),
    "100,000 sizes": (container({"a": entry(shape=[2**63] * 100_000)}, 1), "byte-size"),
    "half a byte": (container({"a": entry("F4", (3,), (0, 2))}, 2), "byte-size"),
    "offset true": (container({"a": entry(offsets=[False, True])}, 1), "malformed"),
    "offset 1.0": (container({"a": entry(offsets=[0, 1.0])}, 1), "malformed"),
    "three offsets": (container({"a": entry(offsets=[0, 1, 1])}, 1), "malformed"),
    "one offset": (container({"a": entry(offsets=[0])}, 1), "malformed"),
    "offset negative": (container({"a": entry(offsets=[-1, 0])}, 1), "malformed"),
    "offset 2^64": (container({"a": entry(offsets=[0, 2**64])}, 1), "malformed"),
    "offset far away": (container({"a": entry(offsets=[0, 10**12])}, 1), "truncated"),
    "end before begin": (container({"a": entry(offsets=[1, 0])}, 1), "offsets"),
    "gap at the start": (container({"a": entry(offsets=[1, 2])}, 2), "offsets"),
    "gap": (container({"a": entry(), "b": entry(offsets=(2, 3))}, 3), "offsets"),
    "overlap": (
        container({"a": entry("U8", [2], (0, 2)), "b": entry(offsets=(1, 2))}, 2),
        "offsets",
    ),
    "same place": (container({"a": entry(), "b": entry()}, 1), "offsets"),
    "empty tensor inside another": (
        container({"a": entry("U8", [2], (0, 2)), "b": entry("U8", [0], (1, 1))}, 2),
        "offsets",
    ),
    "data cut": (container({"a": entry()}), "truncated"),
    "data too long": (container({"a": entry()}, 2), "trailing"),
    "data without tensors": (container("{}", 1), "trailing"),
    "metadata twice": (container('{"__metadata__":{},"__metadata__":{}}'), "duplicate-key"),
    "metadata a list": (container({"__metadata__": []}), "malformed"),
    "metadata number": (container({"__metadata__": {"total": 1}}), "malformed"),
    "metadata object": (container({"__metadata__": {"a": {}}}), "malformed"),
    "metadata null value": (container({"__metadata__": {"a": None}}), "malformed"),
    "metadata number, then text": (container('{"__metadata__":{"a":1,"a":""}}'), "malformed"),
    "dtype twice": (container(within('"dtype":"U8"'), 1), "duplicate-key"),
    "first of two malformed": (container(twice("5", U8), 1), "malformed"),
    "first of two of unknown dtype": (
        container(twice(U8.replace("U8", "U9"), U8), 1),
        "unknown-dtype",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_like_the_library_does(case):
    """Every broken file is a defect of the right kind, and the library refuses it too."""
    raw, kind = BROKEN[case]
    assert not agree(raw)
    assert kind in {str(d.kind) for d in defects(raw) if not d.strict}


SOUND = {
    "no tensors": container("{}"),
    "only metadata": container({"__metadata__": {"format": "pt"}}),
    "metadata null": container({"__metadata__": None}),
    "spaces after": container("{} \n\t "),
    "scalar": container({"a": entry(shape=[])}, 1),
    "empty tensors": container({"a": entry(shape=[0, 9], offsets=(0, 0)), "b": entry()}, 1),
    "overflow after 0": container({"a": entry(shape=[0, 2**63, 4], offsets=(0, 0))}),
    "unknown key": container({"a": entry(extra={"a": [1.5, None, -3, 10**300]})}, 1),
    "unknown key -0": container(within('"x":-0'), 1),
    "unknown key, deep": container(within('"x":' + "[" * 125 + "]" * 125), 1),
    "name with -0": container({"layer-0": entry(shape=[1, 1])}, 1),
    "empty name": container({"": entry()}, 1),
    "escaped pair": container(one("\\ud83d\\ude00"), 1),
    "escaped backslash before a u": container(one("\\\\ud800"), 1),
    "six bits": container({"a": entry("F6_E2M3", (4,), (0, 3))}, 3),
}


@pytest.mark.parametrize("case", SOUND)
def test_sound_files_have_no_defects(case):
    """What is odd but legal is accepted, as the library does."""
    assert defects(SOUND[case]) == ()
    assert agree(SOUND[case])


STRICT = {
    "duplicate-key": [
        container(twice(U8, U8), 1),
        container('{"__metadata__":{"a":"","a":""}}'),
        container(within('"x":1,"x":1'), 1),
        container(twice(U8.replace("[1]", "[9]"), U8), 1),
    ],
    "leading-space": [container(" {}"), container("\n" + one("a"), 1)],
    "array-entry": [container('{"a":["U8",[1],[0,1]]}', 1)],
    "object-dtype": [container({"a": {**entry(), "dtype": {"U8": None}}}, 1)],
    "unprintable-name": [
        container({name: entry()}, 1) for name in ("a\nb", "\0", "\x7f", "a\u202eb", "\u200b")
    ],
}


def test_every_stricter_point_has_a_reason_and_a_case():
    """The list of reasons and the cases of this file name the same points."""
    assert STRICT.keys() == STRICTER_ON_PURPOSE.keys()


@pytest.mark.parametrize("point", STRICT)
def test_stricter_on_purpose(point):
    """The library accepts, quantgate has one strict defect and still reads the tensors."""
    for raw in STRICT[point]:
        assert library_accepts(raw)
        header = parse(raw)
        assert isinstance(header, Header)
        assert [d.strict for d in header.defects] == [True]
        assert len(header.tensors) == len(safetensors.deserialize(raw))


def test_understandable_tensors_survive_a_broken_neighbour():
    """One bad entry costs only itself, and the hole it leaves is not reported as a gap."""
    header = parse(container({"a": entry(), "b": {"dtype": 1}, "c": entry(offsets=(3, 4))}, 4))
    assert isinstance(header, Header)
    assert [t.name for t in header.tensors] == ["a", "c"]
    assert [(d.kind, d.tensor) for d in header.defects] == [(DefectKind.MALFORMED, "b")]


def test_unknown_dtype_is_kept_as_a_tensor():
    """A tensor of unknown dtype keeps its name, shape and place."""
    header = parse(container({"a": entry("F3", (4,), (0, 1))}, 1))
    assert isinstance(header, Header)
    assert header.tensors[0].dtype == "F3"
    assert [d.kind for d in header.defects] == [DefectKind.UNKNOWN_DTYPE]


def test_defects_are_bounded():
    """A header with 5,000 bad entries does not give 5,000 defects, and other kinds still show."""
    bad = {f"t{i}": 1 for i in range(5 * MAX_DEFECTS)}
    found = defects(container({**bad, "z": entry("F3", (4,), (0, 1))}, 1))
    assert sum(d.kind == DefectKind.MALFORMED for d in found) == MAX_DEFECTS
    assert sum(d.kind == DefectKind.UNKNOWN_DTYPE for d in found) == 1


def test_a_header_above_the_limit_is_not_read():
    """Only the eight bytes of length are read, and a lower limit of ours is marked strict."""
    stream = io.BytesIO(container({"a": entry()}, 1))
    found = read_header(stream, size=99, limit=10)
    assert isinstance(found, Defect)
    assert found.kind is DefectKind.TOO_LARGE
    assert found.strict
    assert stream.tell() == 8
    beyond = read_header(io.BytesIO((2**63).to_bytes(8, "little")), size=8, limit=10)
    assert isinstance(beyond, Defect)
    assert not beyond.strict


def test_a_file_that_shrinks_while_it_is_read():
    """A file shorter than its reported size is truncated, not a traceback."""
    found = read_header(io.BytesIO(container({"a": entry()})[:20]), size=1000)
    assert isinstance(found, Defect)
    assert found.kind is DefectKind.TRUNCATED


def test_a_large_header_is_fast():
    """178,000 tensors cost a small multiple of reading their JSON, so the time stays linear."""
    header, at = {}, 0
    for i in range(178_000):
        header[f"layers.{i % 60}.experts.{i // 60}.weight"] = entry(
            "BF16", (64, 64), (at, at + 8192)
        )
        at += 8192
    blob = json.dumps(header).encode()
    start = time.process_time()
    json.loads(blob)
    read = time.process_time()
    found = parse_header(blob, file="x", file_size=8 + len(blob) + at)
    parsed = time.process_time()
    assert isinstance(found, Header)
    assert len(found.tensors) == 178_000
    assert found.defects == ()
    assert parsed - read < 50 * (read - start)
