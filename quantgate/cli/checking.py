"""`quantgate check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quantgate.cli.options import (
    RuleType,
    TargetType,
    fail_on_severity,
    json_report,
    markdown_report,
    own_template,
    read_lfs,
    read_scalars,
    sarif_report,
)
from quantgate.cli.output import one_stdout, show

if TYPE_CHECKING:
    from quantgate.rules import Rule
    from quantgate.targets import Target


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@json_report
@markdown_report
@own_template
@sarif_report
@fail_on_severity
@click.option(
    "--target",
    "targets",
    type=TargetType(),
    multiple=True,
    metavar="vllm=0.33.0,gpu=sm90,tp=1",
    help="What to predict for; may be repeated, every part may be left out.",
)
@click.option(
    "--base",
    default="none",
    show_default=True,
    metavar="auto|none|SOURCE",
    help="The model that was quantized, as a witness: what it holds must be here too, in the same "
    "sizes. auto takes the base_model of the model card.",
)
@read_scalars
@read_lfs
@click.option("--select", type=RuleType(), multiple=True, help="Apply only this rule; repeatable.")
@click.option("--ignore", type=RuleType(), multiple=True, help="Leave this rule out; repeatable.")
@click.option("--dry-load", "dry", is_flag=True, help="Also run vLLM's own loader on the headers.")
@click.option(
    "--vllm-python",
    metavar="PYTHON",
    help="For --dry-load: a Python that has vLLM; that of `dry-load --setup`, or else this one.",
)
def check(
    *,
    sources: tuple[str, ...],
    json_file: str | None,
    markdown_file: str | None,
    template: str | None,
    sarif_file: str | None,
    fail_on: str,
    targets: tuple[Target, ...],
    base: str,
    scalars: bool,
    lfs: str,
    select: tuple[Rule, ...],
    ignore: tuple[Rule, ...],
    dry: bool,
    vllm_python: str | None,
) -> int:
    """Check models: folders, header archives or repositories on the Hub (org/name@revision).

    Also a folder at an address: https://host/folder, or s3://, gs:// … with the store's library.

    Exit code: 0 pass, 1 findings at or above --fail-on, 2 wrong usage, 3 something could not be
    read, 4 internal error.
    """
    from quantgate.checkpoint.lfs_mode import Lfs
    from quantgate.exit_code import ExitCode, exit_code
    from quantgate.runner import check_models
    from quantgate.settings import FAIL_ON
    from quantgate.targets import Target

    one_stdout(json_file, markdown_file, sarif_file)
    selected, ignored = frozenset(r.id for r in select), frozenset(r.id for r in ignore)
    report = check_models(
        sources,
        targets or (Target(),),
        select=selected,
        ignore=ignored,
        base=base,
        scalars=scalars,
        lfs=Lfs(lfs),
        urls=True,
    )
    if dry:
        from quantgate.vllm.dry_load import DryLoadError
        from quantgate.vllm.dry_load.install import usual_python
        from quantgate.vllm.dry_load.join import add_dry_loads

        python = vllm_python or usual_python()
        try:
            report = add_dry_loads(
                report,
                sources,
                python,
                select=selected,
                ignore=ignored,
                base=base,
                lfs=Lfs(lfs),
            )
        except DryLoadError as error:
            click.echo(f"quantgate: {error}", err=True)
            return ExitCode.UNVERIFIED
    show(report, json_file, markdown_file, sarif_file, template)
    return exit_code(report, FAIL_ON[fail_on])
