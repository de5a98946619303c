"""The header parser against the safetensors library, on files that nobody wrote."""

from __future__ import annotations

import json
import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantgate.checkpoint.header import DTYPE_BITS
from tests.support.containers import agree, container, entry


def a_file(rng: random.Random) -> tuple[dict, int]:
    """A sound header of up to five tensors, and the size of its data."""
    header: dict = {}
    at = 0
    for i in range(rng.randrange(6)):
        dtype = rng.choice(list(DTYPE_BITS))
        shape = [rng.choice([0, 1, 2, 4, 8]) for _ in range(rng.randrange(4))]
        size = 8
        for n in shape:
            size *= n
        shape.append(8)
        size = size * DTYPE_BITS[dtype] // 8
        header[f"t{i}"] = entry(dtype, shape, (at, at + size))
        at += size
    if rng.random() < 0.3:
        header["__metadata__"] = {"format": "pt"}
    items = list(header.items())
    rng.shuffle(items)
    return dict(items), at


ODD = [
    None, True, 1.0, -1, 0, 1, 3, 2**63, 2**64, "", "U8", "F4", "\ud800", "\n", [], [0], [0, 0],
    [1, 0], {}, {"U8": None}, {"a": {}}, 1e300, 10**400, float("nan"),
]  # fmt: skip


def damage(rng: random.Random, header: dict, data: int) -> bytes:
    """One or two random changes of a sound file: of a value, a key, a byte, a length."""
    for _ in range(rng.choice([0, 1, 1, 2])):
        tensors = [v for v in header.values() if isinstance(v, dict)]
        match rng.randrange(7):
            case 0 if tensors:
                rng.choice(tensors)[rng.choice(["dtype", "shape", "data_offsets", "x"])] = (
                    rng.choice(ODD)
                )
            case 1 if tensors:
                place = rng.choice(tensors).get(rng.choice(["shape", "data_offsets"]))
                if isinstance(place, list) and place:
                    place[rng.randrange(len(place))] = rng.choice([*ODD, place[0], 1, 2, 8, 16])
            case 2 if tensors:
                rng.choice(tensors).pop(rng.choice(["dtype", "shape", "data_offsets"]), None)
            case 3:
                header[rng.choice(["t0", "t9", "", "a\tb", "__metadata__"])] = rng.choice(ODD)
            case 4 if tensors:
                header[f"copy{rng.random()}"] = rng.choice(tensors)
            case 5:
                data = max(0, data + rng.choice([-1, 1, 8]))
    text = json.dumps(header, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.2:
        text = text.replace('"t1"', '"t0"')
    if rng.random() < 0.1:
        text = rng.choice([" ", "\t", ""]) + text + rng.choice([" ", "\0", "{}", "\n"])
    raw = bytearray(container(text, data))
    if rng.random() < 0.2:
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    if rng.random() < 0.05:
        del raw[rng.randrange(len(raw)) :]
    return bytes(raw)


def test_thousands_of_generated_files_are_judged_like_the_library():
    """Same answer as the library on 20,000 sound and damaged files, many of either kind."""
    rng = random.Random(20261130)
    answers = [agree(damage(rng, *a_file(rng))) for _ in range(20_000)]
    assert answers.count(True) > 5000
    assert answers.count(False) > 5000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


tensor_like = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["U8", "F4", "F16", "X"]) | json_values,
        "shape": st.lists(st.integers(0, 4), max_size=3) | json_values,
        "data_offsets": st.tuples(st.integers(0, 8), st.integers(0, 8)) | json_values,
    }
)


headers = st.dictionaries(
    st.text(max_size=4) | st.just("__metadata__"), tensor_like | json_values, max_size=3
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(headers, st.integers(0, 8))
def test_any_json_is_judged_like_the_library(header, data):
    """No JSON makes the parser raise or disagree with the library."""
    agree(container(header, data))


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_are_judged_like_the_library(raw):
    """No bytes make the parser raise or disagree with the library."""
    agree(raw)
    agree(container(b"{" + raw))
