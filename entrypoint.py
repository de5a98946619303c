"""The action: what to check → check → report → publish → exit code. With arguments: the CLI."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from quantgate.exit_code import ExitCode, exit_code
from quantgate.github.announce import announce, announce_refusal
from quantgate.github.api import Api, ApiError
from quantgate.github.commands import command
from quantgate.github.event import Event
from quantgate.github.job import Job
from quantgate.github.look import look_of
from quantgate.github.publish import clear, crashed, mask, publish, publish_plan, refuse, say
from quantgate.github.reports import read_reports
from quantgate.github.runner_wait import runner_missing
from quantgate.github.select import Selection, SelectionError, select
from quantgate.github.strangers import may_run
from quantgate.runner import check_models
from quantgate.settings import Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quantgate.report.model import Report


CRASHED = "quantgate itself failed; the log of the job says how."


def run(environ: Mapping[str, str], job: Job) -> int:
    """Check the models that the change touches, and say what was found; the exit code."""
    usable = Settings.usable(environ)
    for token in (usable.github_token, usable.hf_token):
        mask(token)
    try:
        given = Settings.from_environment(environ)
        if given.hf_token:
            # Where the client of the Hub looks for it.
            os.environ["HF_TOKEN"] = given.hf_token
        if given.github_token:
            # Where the reader of Git LFS looks for it.
            os.environ["GITHUB_TOKEN"] = given.github_token
        folder = job.report_folder(given.report_path)
        clear(folder)
        job.distrust_cache()
        event = Event.from_environment(environ)
        api = Api(event, given.github_token)
        os.chdir(job.workspace)
        chosen = select(environ, event, api, job.workspace)
        if chosen.settings.plan:
            publish_plan(chosen, job, may_run(event, api, chosen.settings.fork_environment))
            if chosen.models:
                return ExitCode.PASS
        waited = _wait_for_runner(chosen.settings, api, job)
        if waited == "":
            return ExitCode.PASS
        report = _report(chosen, job)
        if waited:
            report = replace(report, notes=(*report.notes, waited))
    except SettingsError as error:
        return _refused(error.problems, environ, job, ExitCode.USAGE)
    except SelectionError as error:
        return _refused((str(error),), environ, job, ExitCode.UNVERIFIED)
    code = exit_code(report, chosen.settings.fail_on)
    look = look_of(chosen.settings, event, api, job.workspace, report)
    publish(report, job, folder, look)
    announce(report, event, api, chosen.settings, job, look=look, blocks=code != ExitCode.PASS)
    # The second workflow only tells what the first one has decided.
    return ExitCode.PASS if event.name == "workflow_run" else code


def _refused(
    problems: tuple[str, ...], environ: Mapping[str, str], job: Job, code: ExitCode
) -> ExitCode:
    refuse(problems, job)
    announce_refusal(problems, environ, job)
    return code


def _wait_for_runner(settings: Settings, api: Api, job: Job) -> str | None:
    """What the report says of a runner that did not come; empty if one did, None if none is meant.

    Whoever may not ask is told so, and goes on: the job that joins all reports closes the gate.
    """
    if not (settings.reports and settings.await_job):
        return None
    try:
        return runner_missing(api, settings.await_job, settings.await_minutes, job.runner)
    except ApiError as error:
        say(command("warning", f"no runner is waited for: {error}", {"title": "quantgate"}))
        return ""


def _report(chosen: Selection, job: Job) -> Report:
    settings = chosen.settings
    if settings.reports:
        read = read_reports(settings.reports, job.workspace, chosen.models, settings.expect_tiers)
        return chosen.judged(read)
    found = check_models(
        chosen.models,
        settings.targets,
        select=settings.select,
        ignore=settings.ignore,
        base=settings.base,
        lfs=settings.lfs,
    )
    return chosen.judged(found)


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
        with suppress(Exception):  # it may have failed before
            announce_refusal((CRASHED,), os.environ, job)
        code = ExitCode.INTERNAL
    sys.exit(code)


if __name__ == "__main__":
    main()
