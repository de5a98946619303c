"""A Hub that answers late, in part, wrongly or not at all."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from quantgate.checkpoint.model import DefectKind
from quantgate.checkpoint.raw import SourceError, assemble
from quantgate.cli import main
from quantgate.findings import Verdict
from tests.support.build import healthy
from tests.support.hub_models import good_model, weight_content
from tests.support.hub_server import Content, FakeHub, Misbehaviour
from tests.support.reading import FIRST, ID, IMPATIENT, QUICK, defects, read, verdict


@pytest.mark.parametrize(
    ("kind", "times", "headers"),
    [
        ("ignore-range", 99, {}),
        ("short", 1, {}),
        ("drop", 1, {}),
        ("stall", 1, {}),
        ("500", 1, {}),
        ("502", 2, {}),
        ("503", 1, {"retry-after": "0"}),
        ("429", 1, {"retry-after": "0"}),
        ("429", 1, {"ratelimit": '"resolvers";r=0;t=0'}),
        ("503", 1, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        ("503", 1, {"retry-after": "soon"}),
    ],
)
def test_passing_trouble_is_overcome(
    hub: FakeHub, kind: str, times: int, headers: dict[str, str]
) -> None:
    """What goes wrong once or twice is tried again, and the headers are the right ones."""
    expected = read().files
    hub.misbehaviours.append(Misbehaviour(kind, times=times, headers=headers))
    raw = read(limits=IMPATIENT if kind == "stall" else QUICK)
    assert raw.files == expected


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("short", "broke off"),
        ("wrong-range", "Content-Range"),
        ("wrong-total", "on the server"),
        ("drop", "could not be fetched"),
        ("stall", "stalled"),
        ("loop", "too many redirects"),
        ("401", "401"),
        ("403", "403"),
        ("404", "404"),
        ("416", "416"),
        ("429", "too many requests"),
        ("500", "500"),
        ("503", "503"),
    ],
)
def test_lasting_trouble_is_unverified(hub: FakeHub, kind: str, words: str) -> None:
    """A file that never arrives blocks as unverified, is no fault of the model, and says why."""
    hub.misbehaviours.append(Misbehaviour(kind, name=FIRST))
    raw = read(limits=IMPATIENT if kind == "stall" else QUICK)
    found = defects(raw)
    assert list(found) == [FIRST]
    assert found[FIRST].kind is DefectKind.NOT_ANSWERED
    assert words in found[FIRST].message


def test_unverified_model_says_to_run_again(
    hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 and the advice to run the check again, with no finding against the model."""
    hub.misbehaviours.append(Misbehaviour("404", name=FIRST))
    found, rules = verdict()
    assert found is Verdict.UNVERIFIED
    assert "QG209" in rules
    assert main(["check", ID]) == 3
    assert "Run the check again" in capsys.readouterr().out


def test_server_that_ignores_ranges_is_cut_off(hub: FakeHub) -> None:
    """Of a file that comes whole, little more than its header is received."""
    hub.add("org/big", {**good_model(1)})
    name = next(n for n in hub.repos["org/big"].files if n.endswith(".safetensors"))
    content = hub.repos["org/big"].files[name]
    hub.repos["org/big"].files[name] = replace_size(content, 300_000_000)
    hub.misbehaviours.append(Misbehaviour("ignore-range"))

    raw = read("org/big")

    assert isinstance(raw.files[0].header, bytes)
    assert raw.bytes_read < 1_000_000


def replace_size(content: Content, size: int) -> Content:
    """The same file with more zeros."""
    return Content(content.head, size)


def test_rate_limit_to_the_end(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    """A Hub that wants an hour of silence is not asked again, and the model is unverified."""
    hub.misbehaviours.append(Misbehaviour("429", "listing", headers={"retry-after": "3600"}))
    with pytest.raises(SourceError, match=r"wait 3600 s.*Run the check again"):
        read()
    assert len(hub.seen) == 1


def test_rate_limit_stops_all_files(hub: FakeHub) -> None:
    """Once the Hub asks for too long a wait, the files that are left are not asked for."""
    hub.add("org/many", good_model(20))
    hub.misbehaviours.append(Misbehaviour("429", headers={"retry-after": "3600"}))
    raw = read("org/many", replace(QUICK, workers=2))
    assert len(defects(raw)) == 20
    assert len(hub.requests("storage")) <= 3


def test_deadline_holds_for_the_model(hub: FakeHub) -> None:
    """A server that gives a few bytes at a time is given up once the model's time is over."""
    hub.misbehaviours.append(Misbehaviour("drip"))
    raw = read(limits=replace(QUICK, deadline=0.5))
    assert {d.message for d in defects(raw).values()} == {
        "was given up: fetching takes longer than the 0.5 s that a model may take"
    }


@pytest.mark.parametrize("kind", ["html", "garbage", "500", "drop", "stall"])
def test_listing_that_makes_no_sense(hub: FakeHub, kind: str) -> None:
    """A sign-in page or a broken answer in place of the listing is an error of the source."""
    hub.misbehaviours.append(Misbehaviour(kind, "listing"))
    with pytest.raises(SourceError, match="Run the check again"):
        read(limits=IMPATIENT if kind == "stall" else QUICK)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
@pytest.mark.parametrize("kind", ["html", "short", "500"])
def test_documents_are_held_against_the_listing(hub: FakeHub, name: str, kind: str) -> None:
    """A config or index that does not arrive as listed is unread, not malformed."""
    hub.misbehaviours.append(Misbehaviour(kind, re.escape(name)))
    checkpoint = assemble(read())
    unread = checkpoint.index if name != "config.json" else checkpoint.configs[name]
    assert unread is not None
    assert unread.kind is DefectKind.NOT_ANSWERED


def test_changed_document_is_refused(hub: FakeHub) -> None:
    """A config of the right length and other content has another hash than the listing says."""
    read()
    repo = hub.repos[ID]
    commit = repo.commit
    config = repo.files["config.json"].head

    class Swapped(Content):
        def part(self, begin: int, end: int) -> bytes:
            return config.replace(b"256", b"257")[begin:end]

    repo.files["config.json"] = Swapped(config)
    assert repo.commit == commit
    assert assemble(read()).configs["config.json"].error.endswith("(its hash differs)")


def test_truncated_file_is_seen_by_its_listed_size(hub: FakeHub) -> None:
    """The listing has the size of an interrupted upload, and no byte of the data is needed."""
    config, tensors = healthy("gptq")
    whole = weight_content(tensors)
    short = Content(whole.head, whole.size - 1000)
    hub.add("org/cut", {"config.json": json.dumps(config).encode(), "model.safetensors": short})
    assert verdict("org/cut") == (Verdict.FAIL, {"QG104"})


def test_hostile_listing(hub: FakeHub) -> None:
    """Empty files, files of three bytes and a header that claims terabytes are findings."""
    huge = (2**40).to_bytes(8, "little") + b"{}"
    hub.add(
        "org/odd",
        {
            "config.json": b"{}",
            "a.safetensors": b"",
            "b.safetensors": b"abc",
            "c.safetensors": Content(huge, 2**41),
        },
    )
    found = {name: d.kind for name, d in defects(read("org/odd")).items()}
    assert found == {
        "a.safetensors": DefectKind.MALFORMED,
        "b.safetensors": DefectKind.MALFORMED,
        "c.safetensors": DefectKind.TOO_LARGE,
    }
