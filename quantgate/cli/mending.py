"""`quantgate fix`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quantgate.cli.options import TargetType

if TYPE_CHECKING:
    from quantgate.targets import Target


@click.command()
@click.argument("source")
@click.option("--write", is_flag=True, help="Apply the change; the old file is kept as *.bak.")
@click.option("--layout", is_flag=True, help="Pack GPTQ or AWQ weights along the declared axis.")
@click.option("--output", metavar="FOLDER", help="Where --layout writes the new model.")
@click.option(
    "--target",
    "targets",
    type=TargetType(),
    multiple=True,
    metavar="vllm=0.33.0,gpu=sm90,tp=1",
    help="What the result must work for; repeatable.",
)
def fix(
    *, source: str, write: bool, layout: bool, output: str | None, targets: tuple[Target, ...]
) -> int:
    """Show the change of config.json that cures SOURCE, and apply it with --write.

    The changed model is checked again before anything is written. With --layout the config stays,
    and the weights are packed as it declares, into a new folder.

    Exit code: 0 cured or nothing to fix, 1 an error remains, 2 wrong usage or not writable,
    3 something could not be read.
    """
    from quantgate.checkpoint.raw import SourceError
    from quantgate.exit_code import ExitCode
    from quantgate.fixing.command import fix_configs, fix_layout
    from quantgate.fixing.write import WriteError
    from quantgate.targets import Target

    if layout and write:
        raise click.UsageError("--layout leaves the config as it is; --write does not go with it")
    if layout != (output is not None):
        raise click.UsageError("--layout and --output FOLDER go together")
    wanted = targets or (Target(),)
    try:
        if output is not None:
            text, code = fix_layout(source, output, wanted)
        else:
            text, code = fix_configs(source, wanted, write=write)
    except SourceError as error:
        click.echo(f"quantgate: {error}", err=True)
        return ExitCode.UNVERIFIED
    except WriteError as error:
        raise click.UsageError(str(error)) from None
    click.echo(text, nl=False)
    return code
