"""Reading a model from a Hub: real HTTP on loopback, through the real client."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants

from quantgate.checkpoint.archive import read_archive
from quantgate.checkpoint.cache import Cache
from quantgate.checkpoint.hub import kept_header_bytes, read_hub
from quantgate.checkpoint.local import read_folder
from quantgate.checkpoint.model import Defect, DefectKind
from quantgate.checkpoint.raw import RawCheckpoint, SourceError, assemble
from quantgate.checkpoint.transport import Limits
from quantgate.cli import main
from quantgate.findings import Verdict
from quantgate.plan import header_bytes as header_size
from quantgate.plan import plan
from quantgate.runner import check_models
from tests.support.build import data_size, header_bytes, healthy, write_checkpoint
from tests.support.hub_models import good_model, model_files, weight_content
from tests.support.hub_server import GRANTED, TOKEN, Content, FakeHub, Misbehaviour

ID = "org/model"
QUICK = Limits(deadline=60, stall=10, tries=3, backoff=0.01)
# Where the server stalls; elsewhere a busy machine would look like one that does.
IMPATIENT = replace(QUICK, stall=0.2)
FIRST = "model-00001-of-00002.safetensors"


@pytest.fixture
def hub(empty_hub: FakeHub) -> FakeHub:
    """A Hub with one good model, which everything in the process takes for the Hub."""
    empty_hub.add(ID, good_model(), revisions=("main", "refs/pr/3", "v1.0"))
    return empty_hub


def read(source: str = ID, limits: Limits = QUICK, cache: Cache | None = None) -> RawCheckpoint:
    """Read with little patience, and without a cache."""
    return read_hub(source, limits=limits, cache=cache or Cache(None))


def defects(raw: RawCheckpoint) -> dict[str, Defect]:
    """File → why its header is missing."""
    return {f.name: f.header for f in raw.files if isinstance(f.header, Defect)}


def verdict(source: str = ID) -> tuple[Verdict, set[str]]:
    """What the gate says of a model, and the rules that have findings."""
    model = check_models([source]).models[0]
    return model.verdict, {f.rule for f in model.findings}


def test_the_hub_gives_what_a_folder_gives(hub: FakeHub, tmp_path: Path) -> None:
    """The same files from the Hub and from disk make the same checkpoint."""
    config, tensors = healthy("awq")
    folder = write_checkpoint(tmp_path / "m", config, {"model.safetensors": tensors})
    hub.add_folder("org/same", folder)

    here, there = assemble(read_folder(folder)), assemble(read("org/same"))

    assert there.tensors == here.tensors
    assert there.configs == here.configs
    assert there.files == here.files
    assert there.revision == hub.repos["org/same"].commit
    assert verdict("org/same") == (Verdict.PASS, set())


def test_one_request_per_file(hub: FakeHub) -> None:
    """One listing, one GET per document and weight file, and the report counts what went by."""
    raw = read()

    assert [s.path for s in hub.requests("hub", "/api/")] == [f"/api/models/{ID}/revision/main"]
    assert len(hub.requests("hub", "/resolve/")) == 5
    assert all(f"/resolve/{raw.revision}/" in s.path for s in hub.requests("hub", "/resolve/"))
    assert len(hub.requests("storage")) == 2
    assert raw.requests == len(hub.seen)
    assert raw.bytes_read == hub.sent
    headers = sum(len(f.header) for f in raw.files if isinstance(f.header, bytes))
    ranges = [re.fullmatch(r"bytes=0-(\d+)", s.range) for s in hub.requests("storage")]
    assert headers <= sum(int(r[1]) for r in ranges if r) <= 1.15 * headers + 600


def test_second_range_only_where_the_first_fell_short(hub: FakeHub) -> None:
    """A header that is longer than its index lets expect is completed by the missing part."""
    metadata = {"note": "x" * 5000}
    config, tensors = healthy("gptq")
    head = header_bytes(tensors, metadata)
    index = {"weight_map": dict.fromkeys(tensors, "model.safetensors")}
    hub.add(
        "org/long",
        {
            "config.json": json.dumps(config).encode(),
            "model.safetensors": Content(head, len(head) + data_size(tensors)),
            "model.safetensors.index.json": json.dumps(index).encode(),
        },
    )

    raw = read("org/long")

    first, second = (s.range for s in hub.requests("storage"))
    assert raw.files[0].header == head[8:]
    assert second == f"bytes={int(first.partition('-')[2]) + 1}-{len(head) - 1}"


@pytest.mark.parametrize(
    "source", [ID, f"hf://{ID}", f"hf://models/{ID}@main", f"{ID}@v1.0", f"{ID}@refs/pr/3"]
)
def test_ways_to_name_a_revision(hub: FakeHub, source: str) -> None:
    """Branches, tags and pull requests of the Hub, with and without the scheme."""
    assert verdict(source) == (Verdict.PASS, set())


def test_commit_that_was_read_is_not_asked_for_again(hub: FakeHub, tmp_path: Path) -> None:
    """A second run at the same commit reads nothing, and one at its branch only the listing."""
    cache = Cache(tmp_path / "kept")
    first = read(cache=cache)
    before = len(hub.seen)

    again = read(f"{ID}@{first.revision}", cache=cache)
    by_name = read(cache=cache)

    assert (again.requests, again.bytes_read) == (0, 0)
    assert by_name.requests == 1 == len(hub.seen) - before
    assert again.files == first.files == by_name.files
    assert again.configs == first.configs
    assert again.index == first.index


def test_damaged_cache_is_no_cache(hub: FakeHub, tmp_path: Path) -> None:
    """An entry that was changed on disk is read again, and what is too much is removed."""
    cache = Cache(tmp_path / "kept")
    first = read(cache=cache)
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"!")

    assert read(cache=cache).files == first.files
    cache.prune(most=0)
    assert list((tmp_path / "kept").iterdir()) == []


def test_token_goes_to_its_own_host_only(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A private model is read with the token, which the storage never sees."""
    hub.add("org/private", good_model(), private=True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)

    assert verdict("org/private") == (Verdict.PASS, set())
    assert {s.token for s in hub.requests("hub")} == {TOKEN}
    assert {s.token for s in hub.requests("storage")} == {""}


@pytest.mark.parametrize(
    ("source", "token", "words"),
    [
        ("org/nothing", "", ["no repository 'org/nothing'", "HF_TOKEN"]),
        ("org/nothing", TOKEN, ["no repository 'org/nothing'", "the token may not read it"]),
        (f"{ID}@v9", "", ["has no revision 'v9'", ID]),
        (ID, "hf_wrong", ["does not accept the token"]),
        ("org/gated", "", ["gated", "/org/gated", "ask for access there", "HF_TOKEN"]),
        ("org/gated", TOKEN, ["gated", "/org/gated", "no access to it yet"]),
        ("org/gguf", "", ["no *.safetensors", "GGUF"]),
        ("org/mlx", "", ["no *.safetensors", "MLX"]),
        ("org/bin", "", ["no *.safetensors", "*.bin"]),
        ("org/nested", "", ["only in sub-folders"]),
        ("org/empty", "", ["no weights at all"]),
        ("hf://a/b/c", "", ["write org/name"]),
        ("hf://org/model@", "", ["write org/name"]),
        ("hf://org/model@../../x", "", ["has no revision"]),
    ],
)
def test_what_cannot_be_read_is_said(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, source: str, token: str, words: list[str]
) -> None:
    """Which of repository, revision, token and format is wrong, and what to do."""
    hub.add("org/gated", good_model(), gated=True)
    hub.add("org/gguf", {"config.json": b"{}", "m.gguf": b"GGUF"})
    hub.add("org/mlx", {"weights.npz": b"PK"})
    hub.add("org/bin", {"pytorch_model.bin": b"PK"})
    hub.add("org/nested", {"unet/model.safetensors": b"x"})
    hub.add("org/empty", {"README.md": b"soon"})
    if token:
        monkeypatch.setenv("HF_TOKEN", token)

    with pytest.raises(SourceError) as error:
        read(source)
    for word in words:
        assert word in str(error.value)
    assert verdict(source)[0] is Verdict.UNVERIFIED


def test_gated_model_with_access(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token with access reads a gated model."""
    hub.add("org/gated", good_model(), gated=True)
    monkeypatch.setenv("HF_TOKEN", GRANTED)
    assert verdict("org/gated") == (Verdict.PASS, set())


def test_pickled_weights_are_a_matter_of_a_rule(hub: FakeHub) -> None:
    """A config beside pickled weights is checked as far as it goes, as in a folder."""
    hub.add("org/pickled", {"config.json": b"{}", "pytorch_model.bin": b"PK"})
    found, rules = verdict("org/pickled")
    assert found is Verdict.UNVERIFIED
    assert "QG207" in rules


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


def test_offline_mode(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_HUB_OFFLINE is honoured, and named."""
    monkeypatch.setattr(constants, "is_offline_mode", lambda: True)
    with pytest.raises(SourceError, match="HF_HUB_OFFLINE"):
        read()
    assert hub.seen == []


@pytest.mark.parametrize("endpoint", ["nowhere", "ftp://x", "http://"])
def test_endpoint_that_is_none(endpoint: str) -> None:
    """A wrong HF_ENDPOINT is told by name."""
    with pytest.raises(SourceError, match="HF_ENDPOINT"):
        read_hub(ID, endpoint=endpoint, cache=Cache(None))


def test_unreachable_hub(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hub that is not there is an error of the source."""
    with pytest.raises(SourceError, match="cannot be reached"):
        read_hub(ID, endpoint="http://127.0.0.1:1", limits=QUICK, cache=Cache(None))


def test_pack_writes_what_was_read(
    hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An archive of a model on the Hub is checked without the Hub; half of one is not written."""
    path = tmp_path / "model.json.gz"
    assert main(["pack", f"{ID}@refs/pr/3", "-o", str(path)]) == 0
    assert read_archive(path).revision == hub.repos[ID].commit
    assert main(["check", str(path)]) == 0
    hub.add("org/other", good_model(3))
    hub.misbehaviours.append(Misbehaviour("404"))
    assert main(["pack", "org/other", "-o", str(tmp_path / "half.json.gz")]) == 3
    assert not (tmp_path / "half.json.gz").exists()
    assert "could not be read" in capsys.readouterr().err


def test_scalars_are_read_by_range_and_kept(hub: FakeHub, tmp_path: Path) -> None:
    """The values of scales cost a range per file and dtype, once, and their bytes are counted."""
    config, tensors = healthy("pack")
    files = model_files(config, tensors, files=2)
    hub.add("org/packed", files)
    cache = Cache(tmp_path / "kept")
    plain = read("org/packed")

    raw = read_hub("org/packed", scalars=True, limits=QUICK, cache=cache)
    again = read_hub(f"org/packed@{raw.revision}", scalars=True, limits=QUICK, cache=cache)

    assert plain.scalars is None
    assert raw.scalars is not None
    assert set(raw.scalars) == {n for n in tensors if n.endswith("weight_shape")}
    assert raw.requests > plain.requests
    assert raw.bytes_read > plain.bytes_read
    assert (again.scalars, again.requests) == (raw.scalars, 0)


def test_scalars_that_do_not_come_are_unverified(hub: FakeHub) -> None:
    """Values that were asked for and not delivered block: they may hide a fault."""
    config, tensors = healthy("pack")
    hub.add("org/packed", model_files(config, tensors, files=1))
    hub.misbehaviours.append(Misbehaviour("404", skip=1))
    with pytest.raises(SourceError, match=r"scales of .* were not read"):
        read_hub("org/packed", scalars=True, limits=QUICK, cache=Cache(None))


def test_base_model_from_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    """--base takes a repository as it takes a folder."""
    config, tensors = healthy("none")
    hub.add(
        "org/base",
        {"config.json": json.dumps(config).encode(), "model.safetensors": weight_content(tensors)},
    )
    report = check_models([ID], base="org/base")
    assert report.models[0].verdict is Verdict.PASS


def test_report_counts(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON report names the commit and counts files, bytes and requests."""
    assert main(["check", ID, "--json", "-"]) == 0
    model: dict[str, Any] = json.loads(capsys.readouterr().out)["models"][0]
    repo = hub.repos[ID]
    assert model["revision"] == repo.commit
    assert model["source"] == ID
    assert model["stats"]["files"] == 2
    assert model["stats"]["requests"] == len(hub.seen)
    assert model["stats"]["bytes_read"] == hub.sent
    weights = sum(c.size for n, c in repo.files.items() if n.endswith(".safetensors"))
    assert model["stats"]["bytes_total"] == weights


def test_endpoint_and_token_of_the_environment(hub: FakeHub, tmp_path: Path) -> None:
    """A process of its own finds the Hub and the token in its environment."""
    hub.add("org/private", good_model(), private=True)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")},
        "HF_ENDPOINT": hub.address,
        "HF_HOME": str(tmp_path / "home"),
        "HF_TOKEN": TOKEN,
    }
    command = [sys.executable, "-m", "quantgate.cli", "check", "org/private"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert {s.token for s in hub.requests("storage")} == {""}


def test_progress_is_for_a_terminal(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written in CI, and a bar of files on a terminal."""
    read()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    read()
    assert "/2" in capsys.readouterr().err


def test_client_is_the_major_that_was_tested() -> None:
    """The helpers of huggingface_hub that are used belong to its second major."""
    assert huggingface_hub.__version__.startswith("2.")


def test_a_second_run_goes_on_where_the_first_one_ended(hub: FakeHub) -> None:
    """What was read before is not asked for again, and only the rest is."""
    names = [f"org/m{n}" for n in range(3)]
    for name in names:
        config, tensors = healthy("gptq")
        head = header_bytes(tensors, {"name": name})
        weights = Content(head, len(head) + data_size(tensors))
        hub.add(
            name, {"config.json": json.dumps(config).encode(), f"{name[4:]}.safetensors": weights}
        )
    sources = [f"{name}@{hub.repos[name].commit}" for name in names]
    hub.misbehaviours.append(Misbehaviour("403", name=r"m1\.safetensors"))
    first = [m.verdict for m in check_models(sources).models]
    assert first == [Verdict.PASS, Verdict.UNVERIFIED, Verdict.PASS]

    hub.misbehaviours.clear()
    before = len(hub.seen)
    again = check_models(sources).models
    assert [m.verdict for m in again] == [Verdict.PASS] * 3
    assert [m.stats.requests for m in again] == [0, len(hub.seen) - before, 0]
    assert {s.path.rpartition("/")[2] for s in hub.requests("hub")[-2:]} >= {"m1.safetensors"}


def test_a_plan_weighs_what_was_read_before(hub: FakeHub) -> None:
    """Models of a known commit by their headers, the others like the usual one; nobody is asked."""
    config, tensors = healthy("gptq")
    head = header_bytes(tensors, {"note": "x" * 50_000})
    weights = Content(head, len(head) + data_size(tensors))
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": weights}
    large = f"org/large@{hub.add('org/large', files).commit}"
    small = f"{ID}@{hub.repos[ID].commit}"
    check_models([large, small])
    before = len(hub.seen)
    sizes = {s: header_size(s) for s in (large, small)}
    assert sizes[large] > 2 * sizes[small] > 0
    assert header_size(ID) == header_size(f"org/unknown@{'0' * 40}") == 0
    shares = plan([small, f"org/unknown@{'0' * 40}", large], 2)
    assert (large,) in [s.models for s in shares]
    assert len(hub.seen) == before


def test_a_plan_of_models_half_known_says_nothing_of_them(hub: FakeHub, tmp_path: Path) -> None:
    """Where a header is missing in the cache, the sum would be too small."""
    cache = Cache(tmp_path / "kept")
    source = f"{ID}@{hub.repos[ID].commit}"
    hub.misbehaviours.append(Misbehaviour("403", name=re.escape(FIRST)))
    read(source, cache=cache)
    assert kept_header_bytes(source, cache=cache) == 0
    hub.misbehaviours.clear()
    raw = read(source, cache=cache)
    assert kept_header_bytes(source, cache=cache) == sum(len(f.header) for f in raw.files)
