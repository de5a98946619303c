"""Whether a runner takes a job of this run in time: GitHub itself lets one wait for a day."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from quantgate.github.api import ApiError
from quantgate.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quantgate.github.api import Api, RunJob

INTERVAL = 15.0  # seconds; a token may make 1,000 requests an hour
MINUTE = 60.0
# In the words of GitHub's API; `waiting` is for an approval, which may take as long as it takes.
_NOT_TAKEN = frozenset({"queued", "requested", "pending"})
# Asking again would not help.
_REFUSED = frozenset({401, 403, 404})


def runner_missing(api: Api, job: str, minutes: int, runner: str = "") -> str:
    """Wait until a job of this run was taken, skipped or stopped for an approval.

    Args:
        api: Of the run.
        job: The job's name, without those of the workflows that call its own.
        minutes: How long to wait.
        runner: Name of the runner that this runs on: jobs of the same name that were called from
            elsewhere are told apart by it.

    Returns:
        A sentence for the report if no runner came in time, else nothing.

    Raises:
        ApiError: GitHub does not tell.
    """
    until = time.monotonic() + minutes * MINUTE
    while True:
        try:
            waits = _waits(api.jobs(), job, runner)
        except ApiError as error:
            if error.status in _REFUSED or time.monotonic() >= until:
                raise
            waits = True
        if not waits:
            return ""
        if time.monotonic() >= until:
            return f"No runner has taken the job `{job}` within {plural(minutes, 'minute')}."
        time.sleep(INTERVAL)


def _waits(jobs: Sequence[RunJob], name: str, runner: str) -> bool:
    """Whether a job has no runner yet; one that is not listed will be."""
    found = [j for j in jobs if _is(j, name)]
    running = [j for j in jobs if runner and j.runner == runner and j.status == "in_progress"]
    callers = {_caller(j) for j in running}
    if len(callers) == 1:
        found = [j for j in found if _caller(j) in callers]
    return not found or any(j.status in _NOT_TAKEN for j in found)


def _is(job: RunJob, name: str) -> bool:
    return job.name == name or job.name.endswith(f" / {name}")


def _caller(job: RunJob) -> str:
    """`gate / smoke load` → `gate`."""
    return job.name.rpartition(" / ")[0]
