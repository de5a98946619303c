"""Paths of a step: where the report goes, and what later steps call it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quantgate.github.job import Job
from quantgate.settings import SettingsError

GITHUB = {
    "GITHUB_WORKSPACE": "/github/workspace",
    "RUNNER_TEMP": "/github/runner_temp",
    "RUNNER_WORKSPACE": "/home/runner/_work/repo",
    "GITHUB_OUTPUT": "/github/file_commands/out",
    "GITHUB_STEP_SUMMARY": "/github/file_commands/summary",
    "RUNNER_DEBUG": "1",
}


def test_the_variables_of_the_runner_are_read():
    """Each variable has its place."""
    assert Job.from_environment(GITHUB) == Job(
        workspace=Path("/github/workspace"),
        temp=Path("/github/runner_temp"),
        outputs=Path("/github/file_commands/out"),
        summary=Path("/github/file_commands/summary"),
        work=Path("/home/runner/_work"),
        debug=True,
    )


def test_without_a_runner_there_is_nothing_to_write_to():
    """Missing and empty variables are the same."""
    job = Job.from_environment(dict.fromkeys(GITHUB, ""))
    assert (job.workspace, job.outputs, job.summary, job.debug) == (Path.cwd(), None, None, False)


def test_reports_go_to_the_temporary_folder_which_has_another_name_outside():
    """Later steps run on the runner, where the mounted folder is `_temp` beside the workspaces."""
    job = Job.from_environment(GITHUB)
    folder = job.report_folder("")
    assert folder == Path("/github/runner_temp/quantgate")
    assert job.outside(folder / "report.md") == "/home/runner/_work/_temp/quantgate/report.md"


def test_a_path_in_the_checkout_is_told_relative_to_it(tmp_path: Path):
    """Steps start in the checkout, inside and outside of a container."""
    job = Job(workspace=tmp_path, temp=tmp_path)
    folder = job.report_folder("out/x")
    assert folder == tmp_path / "out/x"
    assert job.outside(folder / "report.md") == "out/x/report.md"


def test_any_other_path_stays_as_it_is(tmp_path: Path):
    """Runners that mount nothing else know it by the same name."""
    job = Job(workspace=tmp_path, temp=Path("/t"))
    assert job.outside(job.report_folder("/mnt/out") / "report.md") == "/mnt/out/report.md"


@pytest.mark.parametrize("path", ["../x", "a/../../x", "link/x", ".git/x"])
def test_a_relative_path_stays_in_the_checkout(tmp_path: Path, path: str):
    """A pull request may bring a link; the report is not written where it leads."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "link").symlink_to(tmp_path)
    with pytest.raises(SettingsError, match=r"input report-path: .* leads out of the checkout"):
        Job(workspace=checkout, temp=tmp_path).report_folder(path)


@pytest.mark.parametrize("place", ["cache", "./cache", "{workspace}/cache", "{workspace}/link"])
def test_a_cache_in_the_checkout_is_refused(tmp_path: Path, place: str):
    """A pull request could bring headers along that were never read."""
    workspace = tmp_path / "w"
    workspace.mkdir()
    (workspace / "real").mkdir()
    (workspace / "link").symlink_to("real")
    job = Job(workspace=workspace, temp=tmp_path, cache=Path(place.format(workspace=workspace)))
    with pytest.raises(SettingsError, match="lies in the checkout"):
        job.distrust_cache()


@pytest.mark.parametrize("value", ["", "off", "None", "/github/runner_temp/quantgate-cache"])
def test_a_cache_elsewhere_is_used(tmp_path: Path, value: str):
    """So is none."""
    job = Job.from_environment({"GITHUB_WORKSPACE": str(tmp_path), "QUANTGATE_CACHE": value})
    job.distrust_cache()
    assert job.cache == (Path(value) if value.startswith("/") else None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_was_written_belongs_to_the_owner_of_the_checkout(tmp_path: Path):
    """Later steps can read, keep and remove it; what a link leads to stays whose it was."""
    workspace, written = tmp_path / "w", tmp_path / "w/out"
    (written / "inner").mkdir(parents=True)
    (written / "inner/report.json").write_text("{}")
    (tmp_path / "other").write_text("x")
    (written / "link").symlink_to(tmp_path / "other")
    os.chown(workspace, 1234, 1235)
    Job(workspace=workspace, temp=tmp_path).hand_over(written)
    places = [written, written / "inner", written / "inner/report.json", written / "link"]
    assert {(p.lstat().st_uid, p.lstat().st_gid) for p in places} == {(1234, 1235)}
    assert (tmp_path / "other").stat().st_uid == 0
