"""Where a command leaves its reports: files, standard output, the terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from quantgate.report.model import Report


STDOUT = "-"


def one_stdout(*files: str | None) -> None:
    """Refuse two reports on standard output."""
    if files.count(STDOUT) > 1:
        raise click.UsageError("only one report can go to standard output")


def show(
    report: Report,
    json_file: str | None,
    markdown_file: str | None,
    sarif_file: str | None = None,
    template: str | None = None,
) -> None:
    """Write the files that were asked for; else print the report for people."""
    if json_file:
        from quantgate.report.as_json import to_json_text

        write_text(json_file, to_json_text(report))
    if markdown_file:
        from quantgate.report.markdown import to_markdown
        from quantgate.report.templating import TemplateError

        try:
            markdown = to_markdown(report, budget=1 << 20, template=read(template))
        except TemplateError as error:
            raise click.UsageError(str(error)) from None
        write_text(markdown_file, markdown)
    if sarif_file:
        from quantgate.report.places import configs_in
        from quantgate.report.sarif import to_sarif_text

        write_text(sarif_file, to_sarif_text(report, configs_in(Path.cwd(), report.models)))
    if STDOUT not in {json_file, markdown_file, sarif_file}:
        from quantgate.report.text import to_text, wants_colour

        colour = wants_colour(os.environ, is_terminal=sys.stdout.isatty())
        click.echo(to_text(report, colour=colour), nl=False, color=colour)


def read(path: str | None) -> str:
    """The text of a file that the user names, empty without a name."""
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"cannot read {path}") from None


def write_text(path: str, text: str) -> None:
    """Write a report, to standard output if that is asked for."""
    if path == STDOUT:
        click.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from None
