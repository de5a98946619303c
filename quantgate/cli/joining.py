"""`quantgate report`: reports joined, shown, and written as a comment on the Hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quantgate.cli.options import (
    fail_on_severity,
    json_report,
    markdown_report,
    own_template,
    sarif_report,
)
from quantgate.cli.output import one_stdout, show
from quantgate.findings import TIERS

if TYPE_CHECKING:
    from quantgate.hub_discussion import Discussion
    from quantgate.report.model import Report


@click.command("report")
@click.argument("files", nargs=-1, required=True, metavar="REPORT.json...")
@json_report
@markdown_report
@own_template
@sarif_report
@fail_on_severity
@click.option(
    "--expect-model",
    "models",
    multiple=True,
    metavar="SOURCE",
    help="A model that has to be among them, else it is unverified; repeatable.",
)
@click.option(
    "--expect-tier",
    "tiers",
    type=click.Choice(TIERS),
    multiple=True,
    help="A tier that every model must have been through, else it is unverified; repeatable.",
)
@click.option(
    "--hub-discussion",
    metavar="ORG/MODEL#3",
    help="Write the report as a comment there, or change the one that is there.",
)
@click.option(
    "--comment",
    type=click.Choice(["on-failure", "always"]),
    default="on-failure",
    show_default=True,
    help="When to write a first comment; one that is there is kept up to date.",
)
def join_reports(
    *,
    files: tuple[str, ...],
    json_file: str | None,
    markdown_file: str | None,
    template: str | None,
    sarif_file: str | None,
    fail_on: str,
    models: tuple[str, ...],
    tiers: tuple[str, ...],
    hub_discussion: str | None,
    comment: str,
) -> int:
    """Join JSON reports: tiers and targets of the same model, and models of many jobs.

    The worst verdict wins. A file that is missing or not a report makes the result unverified.
    With --hub-discussion the report becomes a comment on a pull request or discussion of the
    Hugging Face Hub; the token is that of huggingface_hub (HF_TOKEN).

    Exit code: as `quantgate check`; whether a comment could be written does not change it.
    """
    from quantgate.exit_code import ExitCode, exit_code
    from quantgate.report.files import read_reports
    from quantgate.report.merge import merge_reports
    from quantgate.settings import FAIL_ON

    one_stdout(json_file, markdown_file, sarif_file)
    discussion = _discussion(hub_discussion) if hub_discussion else None
    report = merge_reports(read_reports(files), models=models, tiers=tiers)
    show(report, json_file, markdown_file, sarif_file, template)
    code = exit_code(report, FAIL_ON[fail_on])
    if discussion is not None:
        _comment(report, discussion, create=comment == "always" or code is not ExitCode.PASS)
    return code


def _discussion(place: str) -> Discussion:
    from quantgate.hub_discussion import Discussion

    try:
        return Discussion.parse(place)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _comment(report: Report, discussion: Discussion, *, create: bool) -> None:
    """Bring the comment on the Hub up to date; what fails there is told and decides nothing."""
    from quantgate.hub_discussion import DiscussionError, comment_on
    from quantgate.report.markdown import COMMENT_BUDGET, to_markdown

    body = to_markdown(report, budget=COMMENT_BUDGET)
    try:
        click.echo(
            f"comment on {discussion}: {comment_on(discussion, body, create=create)}", err=True
        )
    except DiscussionError as error:
        click.echo(f"quantgate: {error}", err=True)
