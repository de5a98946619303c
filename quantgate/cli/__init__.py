"""The command line: a module for each few commands that belong together.

Everything heavy is imported by the command that needs it, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys

import click

from quantgate import __version__
from quantgate.cli.checking import check
from quantgate.cli.handing import pack, plan
from quantgate.cli.joining import join_reports
from quantgate.cli.loading import dry_load, smoke
from quantgate.cli.mending import fix
from quantgate.cli.showing import explain, rules

__all__ = ["app", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="quantgate")
def app() -> None:
    """The merge gate for quantized models.

    Reads configs and safetensors headers, no weights, and says whether vLLM will load a model,
    load it silently wrong, or load it right.
    """


for _command in (check, dry_load, smoke, join_reports, fix, explain, rules, plan, pack):
    app.add_command(_command)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code is returned, never raised."""
    from quantgate.exit_code import ExitCode

    try:
        code = app.main(arguments, prog_name="quantgate", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader of our output is gone (`quantgate rules | head`); that is no failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PASS
    except Exception as error:  # a gate that crashes must say so and not pass
        click.echo(
            f"quantgate: internal error, please report it: {type(error).__name__}: {error}",
            err=True,
        )
        return ExitCode.INTERNAL
    return code if isinstance(code, int) else ExitCode.PASS
