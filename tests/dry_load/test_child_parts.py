"""The parts of the child that need neither torch nor vLLM."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgate.vllm.children.inside.errors import MAX_MESSAGE
from quantgate.vllm.dry_load.child import losses, regions, verdicts
from quantgate.vllm.dry_load.child.reasons import NotSimulated, StubCalled, UnknownType

REGION = st.tuples(
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), max_size=3),
).map(lambda r: (r[0], tuple(n for n, _ in r[1]), tuple(s for _, s in r[1])))


def elements(region: regions.Region) -> set[int]:
    """The elements one by one."""
    offset, shape, strides = region
    places = product(*(range(n) for n in shape))
    return {offset + sum(i * s for i, s in zip(p, strides, strict=True)) for p in places}


@given(st.lists(REGION, max_size=4))
def test_covered_counts_each_element_once(found: list[regions.Region]) -> None:
    """Any views, overlapping or not, cover what they cover element by element."""
    assert regions.covered(found) == len(set().union(*map(elements, found)))


def test_halves_of_a_fused_weight() -> None:
    """Two different halves are all of it, the same half twice is half of it."""
    upper, lower = (0, (64, 128), (128, 1)), (64 * 128, (64, 128), (128, 1))
    assert regions.covered([upper, lower]) == 128 * 128
    assert regions.covered([upper, upper]) == 64 * 128


def test_columns_are_counted() -> None:
    """Columns of a row-major weight, as a transposed layout writes them."""
    left, right = (0, (1000, 32), (64, 1)), (32, (1000, 32), (64, 1))
    assert regions.covered([left, right]) == 1000 * 64
    assert regions.covered([left]) == 1000 * 32


@pytest.mark.parametrize(
    ("name", "source", "target", "bad"),
    [
        ("a.weight", "bfloat16", "float8_e4m3fn", True),
        ("a.weight", "float8_e4m3fn", "bfloat16", True),
        ("a.weight", "bfloat16", "float16", False),
        ("a.weight_scale", "bfloat16", "float32", False),
        ("a.weight_scale", "int32", "float32", True),
        ("a.qweight", "int64", "int32", True),
        ("a.weight_scale", "float8_e8m0fnu", "uint8", True),
        ("a.weight_shape", "int64", "int32", False),
        ("a.g_idx", "int64", "int32", False),
    ],
)
def test_casts(name: str, source: str, target: str, bad: bool) -> None:
    """Rounding is meant; reading integers as floats or dense weights as FP8 is not."""
    assert losses.bad_cast(name, source, target) is bad


def test_lost_tensors() -> None:
    """A layer's weight is lost; what vLLM drops by design, and draft layers, are not."""
    unused = [
        "model.layers.0.mlp.up_proj.weight",
        "model.layers.0.self_attn.rotary_emb.inv_freq",
        "model.layers.0.self_attn.k_scale",
        "model.layers.0.mlp.up_proj.bias",
        "model.layers.2.mlp.up_proj.weight",
        "lm_head.weight",
    ]
    assert losses.lost(unused, range(2, 3)) == ["model.layers.0.mlp.up_proj.weight"]


def chained(outer: BaseException, inner: BaseException) -> BaseException:
    """The exception as `raise outer from inner` makes it."""
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "phase", "reason"),
    [
        (ValueError("Found different quantization schemes"), "init", ""),
        (AssertionError(), "load", ""),
        (RuntimeError("Cannot copy out of meta tensor; no data!"), "post", "a real GPU or real"),
        (AssertionError("scales must be on gpu"), "post", "a real GPU or real"),
        (StubCalled("the kernel x is not simulated"), "load", "the kernel x is not simulated"),
        (chained(KeyError("a"), StubCalled("the kernel y")), "load", "the kernel y|a"),
        (UnknownType("this torch has no type for F6"), "load", "no type for F6"),
        (NotSimulated("vLLM reads it with X"), "load", "with X"),
        (ModuleNotFoundError("No module named 'timm'"), "init", "a library is missing here"),
        (ValueError("['X'] failed to be inspected."), "config", "want of a library"),
        (MemoryError(), "init", "too little memory"),
        (RuntimeError("unable to mmap: Cannot allocate memory (12)"), "load", "too little memory"),
        (ValueError("Please pass `trust_remote_code=True`"), "config", "needs remote code"),
        (ValueError("requires AMX tile support"), "init", "instruction set"),
        (RuntimeError("can't start new thread"), "load", "the machine is not as it must be here"),
        (RuntimeError("Failed to find C compiler. …"), "post", "the machine is not as it must be"),
        (ValueError("no backend for it"), "post", "which kernels"),
        (ValueError("no backend for it"), "init", ""),
    ],
)
def test_what_is_vllms_answer(error: BaseException, phase: str, reason: str) -> None:
    """What vLLM says of a model is an answer; what this machine lacks is not."""
    found = verdicts.uncertain(error, phase)
    assert any(r in found for r in reason.split("|")) if reason else found == ""


def test_failure_tells_where() -> None:
    """A failure carries phase, exception and message, the message cut to a bound."""
    try:
        raise ValueError("x" * 10_000)
    except ValueError as error:
        said = verdicts.failure(error, "init", None)
    assert said["outcome"] == "fails"
    assert (said["phase"], said["exception"], said["reason"]) == ("init", "ValueError", "")
    assert len(said["message"]) == MAX_MESSAGE
    assert said["where"].startswith("test_child_parts.py:")
