"""Models spread over jobs: all of them, each once, evenly, and the same way every time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgate import cli
from quantgate.plan import BASE_COST, header_bytes, matrix, plan
from tests.support.build import healthy, write_checkpoint
from tests.support.github_server import GitHubServer, PullRequest
from tests.unit.conftest import Action

NAMES = st.lists(st.text("abc/", min_size=1), min_size=1, max_size=40, unique=True)


@given(NAMES, st.integers(1, 12))
def test_every_model_has_one_job(names: list[str], jobs: int):
    """None is lost, none is checked twice, no job is empty, and unknown ones are shared out."""
    shares = plan([f"/nowhere/{name}" for name in names], jobs)
    assert sorted(m for s in shares for m in s.models) == sorted(f"/nowhere/{n}" for n in names)
    assert len(shares) == min(jobs, len(names))
    counts = [len(s.models) for s in shares]
    assert max(counts) - min(counts) <= 1


def test_large_headers_are_spread(tmp_path: Path):
    """A job with one large model gets few small ones."""
    for number, size in enumerate([9_000_000, 3_000_000, 3_000_000, 3_000_000, 10]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(size.to_bytes(8, "little"))
    shares = plan([str(tmp_path / str(n)) for n in range(5)], 2)
    assert [[Path(m).name for m in s.models] for s in shares] == [["0", "4"], ["1", "2", "3"]]
    assert [s.cost for s in shares] == [2 * BASE_COST + 9_000_010, 3 * BASE_COST + 9_000_000]


def test_what_is_unknown_weighs_as_much_as_usual(tmp_path: Path):
    """A model that lies elsewhere is likely to be like the others."""
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes((1_000_000).to_bytes(8, "little"))
    (share,) = plan([str(tmp_path / "a"), str(tmp_path / "b"), "org/model"], 1)
    assert share.cost == 3 * (BASE_COST + 1_000_000)


def test_headers_are_weighed_without_being_believed(tmp_path: Path):
    """A header that claims exabytes, a pointer and a folder with a model's name weigh nothing."""
    config, tensors = healthy("gptq")
    write_checkpoint(tmp_path, config, {"model.safetensors": tensors})
    honest = header_bytes(str(tmp_path))
    assert 100 < honest < 1_000_000
    (tmp_path / "a.safetensors").write_bytes(b"\xff" * 8)
    (tmp_path / "b.safetensors").write_text("version https://git-lfs.github.com/spec/v1")
    (tmp_path / "c.safetensors").mkdir()
    (tmp_path / "d.safetensors").write_bytes(b"")
    assert header_bytes(str(tmp_path)) == honest


def test_a_manifest_of_a_thousand_models_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """At the command line, from YAML, without a network."""
    lines = "\n".join(f"- {{repo: org/model-{n}, revision: '{n:040x}'}}" for n in range(1000))
    (tmp_path / "models.yaml").write_text(lines)
    assert cli.main(["plan", "--manifest", str(tmp_path / "models.yaml"), "--jobs", "16"]) == 0
    jobs = json.loads(capsys.readouterr().out)["include"]
    assert len(jobs) == 16
    assert {j["of"] for j in jobs} == {16}
    assert sum(len(j["models"].splitlines()) for j in jobs) == 1000
    assert "org/model-7@" + f"{7:040x}" in jobs[7]["models"]


@pytest.mark.parametrize("arguments", [[], ["--manifest", "/nowhere.yaml"], ["a\nb"]])
def test_what_cannot_be_planned_is_wrong_usage(arguments: list[str]):
    """Nothing named, no manifest there, or a name that would become two."""
    assert cli.main(["plan", *arguments]) == 2


def test_equal_requests_give_equal_plans():
    """The matrix does not depend on anything but the models."""
    names = [f"/nowhere/{n}" for n in range(100)]
    assert matrix(plan(names, 7)) == matrix(plan(names, 7))


def test_the_action_plans_what_a_change_touches(action: Action, github: GitHubServer):
    """The outputs feed the matrix and the last job."""
    for name in ("a", "b", "c"):
        action.put(name, broken=True)
    github.pulls[3] = PullRequest(files={f"{n}/config.json": ("added", "") for n in "ab"})
    assert action.pull_request(plan="8") == 0
    assert action.outputs["jobs"] == "2"
    assert [j["models"] for j in json.loads(action.outputs["matrix"])["include"]] == ["a", "b"]
    assert action.outputs["models"] == "a\nb"
    assert action.outputs["reports"].splitlines() == [
        "reports/quantgate-1/report.json",
        "reports/quantgate-2/report.json",
    ]
    assert github.writes() == []


def test_a_plan_without_models_brings_the_comment_up_to_date(action: Action, github: GitHubServer):
    """There will be no last job to do it."""
    action.put("a", broken=True)
    github.pulls[3] = PullRequest(files={"a/config.json": ("added", "")})
    action.pull_request()
    github.pulls[3] = PullRequest(files={"README.md": ("modified", "")})
    assert action.pull_request(plan="8") == 0
    assert action.outputs["jobs"] == "0"
    assert "### ✅" in github.comments[3][0]["body"]


@pytest.mark.parametrize("name", ["a\nb", " a", "a\u3000", "a\u2028b"])
def test_a_folder_whose_name_would_not_arrive_stops_the_plan(action: Action, name: str):
    """A pull request could otherwise have another model checked in its place."""
    action.put("a")
    action.put(name)
    assert action("schedule", plan="2") == 3
    assert cli.main(["plan", name]) == 2
