"""Commands on models of the Hub: packing, values of scales, base models, reports and plans."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quantgate.checkpoint.archive import read_archive
from quantgate.checkpoint.cache import Cache
from quantgate.checkpoint.hub import kept_header_bytes, read_hub
from quantgate.checkpoint.raw import SourceError
from quantgate.cli import main
from quantgate.findings import Verdict
from quantgate.plan import header_bytes as header_size
from quantgate.plan import plan
from quantgate.runner import check_models
from tests.support.build import data_size, header_bytes, healthy
from tests.support.hub_models import good_model, model_files, weight_content
from tests.support.hub_server import TOKEN, Content, FakeHub, Misbehaviour
from tests.support.reading import FIRST, ID, QUICK, read


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
