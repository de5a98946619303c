"""A bad model never raises: wrong types anywhere in its config, tensors of any name and shape."""

import copy
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantgate.findings import Severity
from quantgate.report.as_json import to_json_text
from quantgate.report.markdown import to_markdown
from quantgate.report.model import Report
from quantgate.report.text import to_text
from quantgate.runner import check_checkpoint
from quantgate.targets import Target
from tests.support.build import healthy
from tests.support.declarations import DECLARATIONS
from tests.support.memory import checkpoint_of

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1 << 70, -(1 << 70), 1e308, "", "x", "re:(", "re:.*", "4", [], {}),
    *(
        [None],
        [[]],
        [1, "a"],
        {"a": None},
        {"": {}},
        ["re:(((a+)+)+"],
        "q_proj",
        "\u202e`|\n::error::",
    ),
)
TARGETS = (Target(), Target("0.32.0", "sm75", 8), Target(gpu="cpu"))
METHODS = [m for m in DECLARATIONS if DECLARATIONS[m] is not None]


def report_on(config: Any, tensors: dict[str, str], sides: dict[str, Any] | None = None) -> Report:
    """Check in-memory files and render every form of the report."""
    checked = check_checkpoint(checkpoint_of(config, tensors, sides), TARGETS)
    report = Report(TARGETS, (checked,))
    assert to_text(report)
    assert to_json_text(report)
    assert to_markdown(report)
    return report


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [prefix]
    if isinstance(value, dict):
        for key in value:
            found += paths(value[key], (*prefix, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            found += paths(item, (*prefix, i))
    return found


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at one place."""
    if not path:
        return new
    changed = copy.deepcopy(value)
    node = changed
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = new
    return changed


@given(st.sampled_from(METHODS), st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_config_value_may_be_anything(method: str, data: st.DataObject) -> None:
    """Two places of a healthy config hold hostile values."""
    config, tensors = healthy(method)
    for _ in range(2):
        if isinstance(config, (dict, list)):
            config = put(
                config,
                data.draw(st.sampled_from(paths(config))),
                data.draw(st.sampled_from(HOSTILE)),
            )

    report_on(config, tensors)


@given(st.sampled_from(METHODS), st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_tensor_may_be_anything(method: str, data: st.DataObject) -> None:
    """Some tensors have another type, rank or size, or are gone, or have odd names."""
    config, tensors = healthy(method)
    names = list(tensors)
    for _ in range(4):
        name = data.draw(st.sampled_from(names))
        dtype = data.draw(
            st.sampled_from(["F32", "I32", "U8", "I8", "F8_E4M3", "F4", "BOOL", "I64"])
        )
        shape = data.draw(st.lists(st.sampled_from([0, 1, 2, 8, 3, 256, 1000]), max_size=4))
        odd = data.draw(
            st.sampled_from([name, f"{name}.x", name.replace(".", "..", 1), "", ".", "weight"])
        )
        if data.draw(st.booleans()):
            tensors.pop(name, None)
        if dtype == "F4":
            shape = [*shape, 2]
        tensors[odd] = f"{dtype}[{','.join(map(str, shape))}]"

    report_on(config, tensors)


@given(st.sampled_from(METHODS), st.sampled_from(HOSTILE), st.sampled_from(HOSTILE))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_side_files_may_be_anything(method: str, side: Any, other: Any) -> None:
    """Side files of any content."""
    config, tensors = healthy(method)
    config.pop("quantization_config")

    report_on(config, tensors, {"hf_quant_config.json": side, "quantize_config.json": other})


def bounded(ignore: list[str], tensors: dict[str, str] | None = None) -> tuple[float, Report]:
    """(seconds of the processor, report) of a W4A16 model with this ignore list."""
    config, healthy_tensors = healthy("pack")
    config["quantization_config"]["ignore"] = ["lm_head", *ignore]
    started = time.process_time()
    report = report_on(config, tensors or healthy_tensors)
    return time.process_time() - started, report


def test_slow_patterns_are_asked_once_and_not_for_every_layer() -> None:
    """Many patterns of exponential time cost seconds in all, and the report names them."""
    patterns = [rf"re:(\w|\w\w|\w{{3}}|\.)+\d(?:{i})?$" for i in range(40)]

    seconds, report = bounded(patterns)

    assert seconds < 30
    slow = [f for f in report.models[0].findings if f.rule == "QG505"]
    assert slow
    assert "hangs" in slow[0].message


def test_a_list_of_100_000_entries_is_read_in_seconds() -> None:
    """Entries are looked up, not walked."""
    seconds, report = bounded([f"model.layers.{i}.mlp.none" for i in range(100_000)])

    assert seconds < 30
    for_all = [f for f in report.models[0].findings if not f.targets]
    assert all(f.severity is Severity.INFO for f in for_all)


@pytest.mark.parametrize("name", ["mlp\n::error::x", "`mlp` | <b>", "\u202emlp", "mlp" * 2000])
def test_names_are_never_markup(name: str) -> None:
    """A module's name acts neither on a terminal, nor in Markdown, nor on the runner's log."""
    config, tensors = healthy("gptq")
    config["quantization_config"]["bits"] = 8
    report = report_on(config, {k.replace("mlp", name): v for k, v in tensors.items()})
    text, markdown = to_text(report), to_markdown(report)

    assert report.models[0].verdict == "fail"
    for line in (text + markdown).splitlines():
        assert not line.lstrip().startswith("::")
    assert "\u202e" not in text + markdown


def test_no_architecture_is_no_crash() -> None:
    """An empty list of architectures is a warning of its own, and names are still matched."""
    config, tensors = healthy("pack")
    config["architectures"] = []

    report = report_on(config, tensors)

    rules = {f.rule for f in report.models[0].findings if not f.targets}
    assert "QG604" in rules
    assert rules <= {"QG604", "QG504"}
