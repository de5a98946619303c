"""Where a step runs: the checkout, the folders it may write to, and their names outside."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from quantgate.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Where the runner mounts its temporary folder into a Docker action (actions/runner,
# ContainerActionHandler.cs), and that folder's name beside the workspaces outside.
CONTAINER_TEMP = Path("/github/runner_temp")
HOST_TEMP = "_temp"
# What QUANTGATE_CACHE says where nothing is to be kept.
_NO_CACHE = frozenset({"0", "off", "no", "none"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The surroundings of one step, from the variables that the runner sets.

    Attributes:
        workspace: The checkout.
        temp: The runner's temporary folder, empty at the start of each job.
        outputs: The file for outputs, None where there is none.
        summary: The file for the job summary, None where there is none.
        work: The folder on the runner that holds its workspaces, None where unknown.
        runner: Name of the runner, empty where unknown.
        debug: Whether the run was started with debug logging.
        cache: The folder that keeps headers between runs, None where none was named.
    """

    workspace: Path
    temp: Path
    outputs: Path | None = None
    summary: Path | None = None
    work: Path | None = None
    runner: str = ""
    debug: bool = False
    cache: Path | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read what the runner sets; a variable that is missing has the value it has locally."""

        def path(variable: str) -> Path | None:
            value = environ.get(variable)
            return Path(value) if value else None

        runner_workspace, cache = path("RUNNER_WORKSPACE"), path("QUANTGATE_CACHE")
        return cls(
            workspace=path("GITHUB_WORKSPACE") or Path.cwd(),
            temp=path("RUNNER_TEMP") or Path("/tmp"),  # noqa: S108  the runner's own default
            outputs=path("GITHUB_OUTPUT"),
            summary=path("GITHUB_STEP_SUMMARY"),
            work=runner_workspace.parent if runner_workspace else None,
            runner=environ.get("RUNNER_NAME", ""),
            debug=environ.get("RUNNER_DEBUG") == "1",
            cache=None if cache and str(cache).lower() in _NO_CACHE else cache,
        )

    def distrust_cache(self) -> None:
        """Refuse a cache that a pull request could bring along.

        Raises:
            SettingsError: The cache lies in the checkout: what is found there would be believed.
        """
        workspace = self.workspace.resolve()
        if self.cache and (workspace / self.cache).resolve().is_relative_to(workspace):
            raise SettingsError(
                f"QUANTGATE_CACHE: {str(self.cache)!r} lies in the checkout, where a pull request "
                f"could put headers of its own; use {CONTAINER_TEMP}/quantgate-cache"
            )

    def hand_over(self, folder: Path) -> None:
        """Give a folder to the owner of the checkout: this runs as root, and later steps do not.

        Raises:
            OSError: It cannot be given away.
        """
        if os.geteuid() != 0:
            return
        owner = self.workspace.stat()
        for path, _, names in os.walk(folder):
            for place in (path, *(os.path.join(path, name) for name in names)):  # noqa: PTH118
                os.chown(place, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def report_folder(self, report_path: str) -> Path:
        """The absolute folder for the report files; a relative path is taken from the checkout.

        Raises:
            SettingsError: A relative path leaves the checkout. The files of a pull request may
                hold links, and the report must not be written where they point.
        """
        if not report_path:
            return self.temp / "quantgate"
        path = Path(report_path)
        if path.is_absolute():
            return path
        workspace = self.workspace.resolve()
        folder = (workspace / path).resolve()
        if not folder.is_relative_to(workspace) or ".git" in folder.relative_to(workspace).parts:
            raise SettingsError(f"input report-path: {report_path!r} leads out of the checkout")
        return folder

    def outside(self, path: Path) -> str:
        """The path as later steps know it, which do not run in this container."""
        workspace = self.workspace.resolve()
        if path.is_relative_to(workspace):
            return path.relative_to(workspace).as_posix()
        if self.work and path.is_relative_to(CONTAINER_TEMP):
            return str(self.work / HOST_TEMP / path.relative_to(CONTAINER_TEMP))
        return str(path)
