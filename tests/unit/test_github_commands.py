"""Workflow commands and the files a step leaves its results in."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgate.github import outputs
from quantgate.github.commands import ANNOTATIONS, add_mask, annotate, command, stop_commands
from quantgate.report.model import Report
from quantgate.report.places import Config
from tests.support import report_samples as samples

if TYPE_CHECKING:
    from pathlib import Path


def test_annotation_says_what_where_and_how_to_repair() -> None:
    """An annotation has the rule as title and tells the place, the fault, the repair, the page."""
    report = Report((), (samples.model(samples.note()),))

    assert annotate(report, configs={"org/model-FP8": Config("a/config.json", "{}")}) == [
        "::notice file=a/config.json,title=QG203 leftover-file in org/model-FP8::"
        "pytorch_model.bin: vLLM reads the safetensors files and never this one.%0A"
        "Expected nothing, found 16.1 GB beside the safetensors files.%0A"
        "Fix: Delete it; it doubles the download.%0A"
        "https://github.com/quantgate/quantgate/blob/main/docs/rules/QG203.md"
    ]


def test_annotation_is_on_the_line_of_its_key() -> None:
    """Where a finding has a patch, the annotation stands at the key, or as near as there is."""
    text = '{\n "a": 1,\n "quantization_config": {\n  "bits": 4,\n  "ignore": []}}'
    report = Report((), (samples.model(samples.split_ignore(), samples.finding()),))
    lines = annotate(report, configs={"org/model-FP8": Config("m/config.json", text)})

    assert lines[0].startswith("::error file=m/config.json,line=5,title=QG502 ")
    assert lines[1].startswith("::error file=m/config.json,line=3,title=QG401 ")


def test_annotations_are_limited_and_say_so() -> None:
    """GitHub drops the eleventh in silence; the tenth says how many there are."""
    lines = annotate(samples.many_errors(400))
    errors = [line for line in lines if line.startswith("::error ")]

    assert len(errors) == ANNOTATIONS
    assert errors[-1] == "::error title=quantgate::391 more errors in the job summary"
    assert len(annotate(samples.many_errors(10))) == 11


def test_worst_annotations_come_first() -> None:
    """Errors, then warnings, then notices, over all models."""
    kinds = [line.split(" ")[0] for line in annotate(samples.mixed())]

    assert kinds == ["::error"] * 3 + ["::warning", "::notice"]


def test_unverified_model_is_an_error() -> None:
    """A model that could not be read has an annotation even without a finding."""
    model = samples.unverified().models[0]
    bare = samples.model(verdict=model.verdict, summary="The Hub said 429 to the end.")

    assert annotate(Report((), (bare,))) == [
        "::error title=could not verify org/model-FP8::The Hub said 429 to the end."
    ]


def assert_one_command(text: str) -> None:
    """Each line is one command with the properties we gave it, whatever the names."""
    for line in annotate(samples.with_text(text), configs={text: Config(text, "{}")}):
        assert line.isprintable()
        assert re.fullmatch(
            r"::(error|notice) (file=[^,:]+,)?title=[^,:]+::.+|::error title=[^,:]+::.+", line
        )


@pytest.mark.parametrize("text", samples.HOSTILE.values(), ids=samples.HOSTILE.keys())
def test_hostile_names_stay_within_their_command(text: str) -> None:
    """No name ends a command, starts another, or adds a property."""
    assert_one_command(text)


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_any_name_stays_within_its_command(text: str) -> None:
    """The same for arbitrary names."""
    assert_one_command(text)


def test_command_leaves_out_empty_properties() -> None:
    """The runner would read an empty file name as a file."""
    assert command("error", "a%b", {"file": "", "title": "c:d"}) == "::error title=c%3Ad::a%25b"
    assert command("debug", "x", {"file": ""}) == "::debug::x"


def test_mask_covers_every_line_and_never_nothing() -> None:
    """The runner masks by line, and masking the empty string would mask everything."""
    assert add_mask("hf_a%b\n\nsecond\n") == ["::add-mask::hf_a%25b", "::add-mask::second"]
    assert add_mask("") == []


def test_untrusted_log_cannot_command() -> None:
    """Raw text stands between the stop and its token, also when the block raises."""
    stream = io.StringIO()

    def leak() -> None:
        with stop_commands(stream, "token"):
            stream.write("::error::forged")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        leak()

    assert stream.getvalue() == "::stop-commands::token\n::error::forged\n::token::\n"


def test_stop_token_differs_each_time() -> None:
    """A token that could be guessed could be printed by the untrusted text."""
    streams = [io.StringIO(), io.StringIO()]
    for stream in streams:
        with stop_commands(stream):
            pass
    first, second = (s.getvalue() for s in streams)

    assert first != second
    assert re.match(r"::stop-commands::[0-9a-f]{32}\n", first)


def test_outputs_are_heredocs(tmp_path: Path) -> None:
    """Each value is between its own random delimiters, appended to what was there."""
    path = tmp_path / "output"
    path.write_text("before=1\n")
    outputs.write_outputs(path, {"verdict": "fail", "summary": "two\nlines=x"})

    match = re.fullmatch(
        r"before=1\nverdict<<(quantgate_\w{32})\nfail\n\1\n"
        r"summary<<(quantgate_\w{32})\ntwo\nlines=x\n\2\n",
        path.read_text(),
    )
    assert match
    assert match[1] != match[2]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("a b", "x", "not the name"),
        ("a\nb", "x", "not the name"),
        ("a", "x\nEND\nb<<E", "delimiter"),
        ("a", "x" * (outputs.MAX_OUTPUT + 1), "longer than"),
    ],
)
def test_outputs_that_could_be_misread_are_refused(name: str, value: str, message: str) -> None:
    """A name or value that could add another output, or that GitHub drops, is an error."""
    with pytest.raises(ValueError, match=message):
        outputs.format_output(name, value, "END")


def test_nothing_is_written_when_one_output_is_refused(tmp_path: Path) -> None:
    """Half of the outputs would be worse than none."""
    path = tmp_path / "output"
    with pytest.raises(ValueError, match="not the name"):
        outputs.write_outputs(path, {"good": "1", "not good": "2"})

    assert not path.exists()


def test_summary_is_appended_within_its_limit(tmp_path: Path) -> None:
    """GitHub loses a summary that is too long, so it is refused before it is written."""
    path = tmp_path / "summary"
    assert outputs.summary_room(path) == outputs.MAX_SUMMARY

    outputs.append_summary(path, "first × \ud800\n")
    outputs.append_summary(path, "second\n")

    assert path.read_bytes() == "first × ?\nsecond\n".encode()
    room = outputs.summary_room(path)
    assert room == outputs.MAX_SUMMARY - len("first × ?\nsecond\n".encode())
    with pytest.raises(ValueError, match="does not fit"):
        outputs.append_summary(path, "x" * (room + 1))
    outputs.append_summary(path, "x" * room)
    assert outputs.summary_room(path) == 0
