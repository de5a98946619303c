"""The action: settings → check → report → publish → exit code. With arguments: the CLI."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from quantgate.exit_code import ExitCode, exit_code
from quantgate.github.discover import DiscoveryError, models_in
from quantgate.github.job import Job
from quantgate.github.publish import crashed, publish, refuse
from quantgate.runner import check_models
from quantgate.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping


def run(environ: Mapping[str, str], job: Job) -> int:
    """Check the models that the inputs name, or all of the checkout; the exit code."""
    try:
        settings = Settings.from_environment(environ)
        folder = job.report_folder(settings.report_path)
    except SettingsError as error:
        refuse(error.problems, job)
        return ExitCode.USAGE
    os.chdir(job.workspace)
    try:
        models = settings.models or models_in(job.workspace)
    except DiscoveryError as error:
        refuse((str(error),), job)
        return ExitCode.UNVERIFIED
    report = check_models(
        models,
        settings.targets,
        select=settings.select,
        ignore=settings.ignore,
        base=settings.base,
    )
    publish(report, job, folder)
    return exit_code(report, settings.fail_on)


def main() -> None:
    """Run the CLI where there are arguments or no GitHub, else the action."""
    if len(sys.argv) > 1 or os.environ.get("GITHUB_ACTIONS") != "true":
        from quantgate.cli import main as cli  # noqa: PLC0415  the action does not need it

        sys.exit(cli())
    job = Job.from_environment(os.environ)
    try:
        code = run(os.environ, job)
    except Exception as error:  # the last resort: a crash is told in one sentence
        crashed(error, job)
        code = ExitCode.INTERNAL
    sys.exit(code)


if __name__ == "__main__":
    main()
