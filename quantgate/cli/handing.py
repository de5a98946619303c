"""`quantgate plan` and `quantgate pack`: models made ready for another machine."""

from __future__ import annotations

from pathlib import Path

import click

from quantgate.cli.options import read_lfs, read_scalars


@click.command()
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("--manifest", metavar="FILE[#PLACE]", help="A YAML or JSON file that lists models.")
@click.option("--jobs", type=click.IntRange(1, 256), default=8, show_default=True)
def plan(*, sources: tuple[str, ...], manifest: str | None, jobs: int) -> int:
    """Print models as a matrix of jobs of about equal work, for GitHub Actions.

    One line of JSON, as `strategy.matrix` takes it. Models are weighed by the sizes of their
    headers, nothing is checked and nothing fetched.
    """
    from quantgate.exit_code import ExitCode
    from quantgate.manifest import ManifestError, parse_manifest, split_manifest
    from quantgate.plan import can_be_handed_on, matrix, plan

    models = dict.fromkeys(sources)
    if manifest:
        try:
            text = Path(split_manifest(manifest)[0]).read_text("utf-8")
            models |= dict.fromkeys(entry.source for entry in parse_manifest(text, manifest))
        except (OSError, UnicodeDecodeError, ManifestError) as error:
            raise click.UsageError(f"the manifest cannot be read: {error}") from None
    if not models:
        raise click.UsageError("name models, or a manifest that lists them")
    changing = [m for m in models if not can_be_handed_on(m)]
    if changing:
        raise click.UsageError(f"the name {changing[0]!r} cannot be handed on to another job")
    click.echo(matrix(plan(tuple(models), jobs)))
    return ExitCode.PASS


@click.command()
@click.argument("source")
@click.option("-o", "--output", required=True, metavar="FILE.json.gz", help="The file to write.")
@read_scalars
@read_lfs
def pack(*, source: str, output: str, scalars: bool, lfs: str) -> int:
    """Write a header archive: configs and headers of SOURCE in one small file, no weights.

    The archive can be checked wherever a model can, and shared where the model cannot.
    """
    from dataclasses import replace

    from quantgate.checkpoint.archive import write_archive
    from quantgate.checkpoint.lfs_mode import Lfs
    from quantgate.checkpoint.raw import SourceError
    from quantgate.checkpoint.sources import read_source
    from quantgate.exit_code import ExitCode

    if not output.endswith(".json.gz"):
        raise click.UsageError("a header archive is called something.json.gz")
    try:
        raw = read_source(source, scalars=scalars, lfs=Lfs(lfs), urls=True)
    except SourceError as error:
        click.echo(f"quantgate: {error}", err=True)
        return ExitCode.UNVERIFIED
    if Path(source).exists():
        # An archive is made to be shared: where a model lies on this machine stays here.
        raw = replace(raw, source=Path(source).resolve().name)
    if raw.unanswered:
        name = raw.unanswered[0]
        click.echo(f"quantgate: {name!r} could not be read; run the command again.", err=True)
        return ExitCode.UNVERIFIED
    try:
        write_archive(raw, output)
    except OSError as error:
        raise click.UsageError(f"cannot write {output}: {error.strerror}") from None
    click.echo(f"{output}: {Path(output).stat().st_size:,} bytes")
    return ExitCode.PASS
