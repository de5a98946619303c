"""The command line: `quantgate check`, `dry-load`, `report`, `fix`, `explain`, `plan`, `pack`, ….

Everything heavy is imported by the command that needs it, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quantgate import __version__
from quantgate.findings import TIERS

if TYPE_CHECKING:
    from quantgate.hub_discussion import Discussion
    from quantgate.report.model import Report
    from quantgate.rules import Rule
    from quantgate.targets import Target

STDOUT = "-"


class TargetType(click.ParamType[Any]):
    """`vllm=0.33.0,gpu=sm90,tp=1`."""

    name = "target"

    def convert(self, value: Any, param: Any, ctx: Any) -> Target:
        """Parse, or say what is allowed."""
        from quantgate.targets import Target

        if isinstance(value, Target):
            return value
        try:
            return Target.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class RuleType(click.ParamType[Any]):
    """A rule by id or name."""

    name = "rule"

    def convert(self, value: Any, param: Any, ctx: Any) -> Rule:
        """Look it up, or say how to list them."""
        from quantgate.rules import Rule, find_rule

        if isinstance(value, Rule):
            return value
        found = find_rule(value)
        if found is None:
            self.fail(f"no rule {value!r}; `quantgate rules` lists them", param, ctx)
        return found


read_scalars = click.option(
    "--read-scalars",
    "scalars",
    is_flag=True,
    help="Read the few tensors whose values matter too: lone scales and weight_shape, some bytes "
    "each (QG447-QG449).",
)


read_lfs = click.option(
    "--lfs",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Whether to ask the remote's LFS server for what Git LFS pointers stand for, headers "
    "only. auto asks GitHub, GitLab and the Hub; always any server that the checkout names.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="quantgate")
def app() -> None:
    """The merge gate for quantized models.

    Reads configs and safetensors headers, no weights, and says whether vLLM will load a model,
    load it silently wrong, or load it right.
    """


@app.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--json", "json_file", metavar="FILE", help="Write the JSON report; - is stdout.")
@click.option("--markdown", "markdown_file", metavar="FILE", help="Write Markdown; - is stdout.")
@click.option("--template", metavar="FILE", help="A Jinja template of your own for --markdown.")
@click.option("--sarif", "sarif_file", metavar="FILE", help="Write SARIF 2.1.0; - is stdout.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
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

    _one_stdout(json_file, markdown_file, sarif_file)
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
                report, sources, python, select=selected, ignore=ignored, base=base
            )
        except DryLoadError as error:
            click.echo(f"quantgate: {error}", err=True)
            return ExitCode.UNVERIFIED
    _show(report, json_file, markdown_file, sarif_file, template)
    return exit_code(report, FAIL_ON[fail_on])


@app.command("report")
@click.argument("files", nargs=-1, required=True, metavar="REPORT.json...")
@click.option("--json", "json_file", metavar="FILE", help="Write the JSON report; - is stdout.")
@click.option("--markdown", "markdown_file", metavar="FILE", help="Write Markdown; - is stdout.")
@click.option("--template", metavar="FILE", help="A Jinja template of your own for --markdown.")
@click.option("--sarif", "sarif_file", metavar="FILE", help="Write SARIF 2.1.0; - is stdout.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
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

    _one_stdout(json_file, markdown_file, sarif_file)
    discussion = _discussion(hub_discussion) if hub_discussion else None
    report = merge_reports(read_reports(files), models=models, tiers=tiers)
    _show(report, json_file, markdown_file, sarif_file, template)
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


def _one_stdout(*files: str | None) -> None:
    if files.count(STDOUT) > 1:
        raise click.UsageError("only one report can go to standard output")


def _show(
    report: Report,
    json_file: str | None,
    markdown_file: str | None,
    sarif_file: str | None = None,
    template: str | None = None,
) -> None:
    if json_file:
        from quantgate.report.as_json import to_json_text

        _write(json_file, to_json_text(report))
    if markdown_file:
        from quantgate.report.markdown import to_markdown
        from quantgate.report.templating import TemplateError

        try:
            markdown = to_markdown(report, budget=1 << 20, template=_read(template))
        except TemplateError as error:
            raise click.UsageError(str(error)) from None
        _write(markdown_file, markdown)
    if sarif_file:
        from quantgate.report.places import configs_in
        from quantgate.report.sarif import to_sarif_text

        _write(sarif_file, to_sarif_text(report, configs_in(Path.cwd(), report.models)))
    if STDOUT not in {json_file, markdown_file, sarif_file}:
        from quantgate.report.text import to_text, wants_colour

        colour = wants_colour(os.environ, is_terminal=sys.stdout.isatty())
        click.echo(to_text(report, colour=colour), nl=False, color=colour)


def _read(path: str | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"cannot read {path}") from None


def _write(path: str, text: str) -> None:
    if path == STDOUT:
        click.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from None


@app.command("dry-load")
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("--gpu", default="sm90", show_default=True, help="sm75 … sm120, or cpu.")
@click.option(
    "--tp",
    "tensor_parallel",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Tensor-parallel size; its first and last rank are loaded.",
)
@click.option("--json", "json_file", metavar="FILE", help="Write the JSON report; - is stdout.")
@click.option("--markdown", "markdown_file", metavar="FILE", help="Write Markdown; - is stdout.")
@click.option(
    "--vllm-python",
    metavar="PYTHON",
    help="A Python that has vLLM; without it, that of --setup, or else this one.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="For starting up, and for each model.",
)
@click.option(
    "--memory",
    type=click.FloatRange(min=0.5),
    default=8,
    show_default=True,
    metavar="GB",
    help="For vLLM's process.",
)
@click.option("--setup", is_flag=True, help="First install vLLM's CPU build into .venv-vllm.")
def dry_load(
    *,
    sources: tuple[str, ...],
    gpu: str,
    tensor_parallel: int,
    json_file: str | None,
    markdown_file: str | None,
    vllm_python: str | None,
    timeout: float,
    memory: float,
    setup: bool,
) -> int:
    """Run vLLM's own loader on headers alone, as if on a chosen GPU; and check them, too.

    Neither a GPU nor weights are needed, but vLLM is, in some Python.

    Exit code: 0 loads, 1 would not work, 2 wrong usage, 3 could not be told, 4 internal error.
    """
    from quantgate.exit_code import ExitCode, exit_code
    from quantgate.vllm.dry_load import CPU, GPUS, DryLoadError, Limits
    from quantgate.vllm.dry_load.install import FOLDER, install, usual_python
    from quantgate.vllm.dry_load.join import check_with_dry_load

    if json_file == STDOUT and markdown_file == STDOUT:
        raise click.UsageError("--json - and --markdown - cannot share standard output")
    if gpu in {"rocm", "xpu"}:
        raise click.UsageError(
            f"--gpu {gpu} is not simulated: what vLLM's {gpu} platform loads was not held against "
            "the real one"
        )
    if gpu not in {*GPUS, CPU}:
        raise click.UsageError(f"--gpu {gpu!r} is none of {', '.join([*GPUS, CPU])}")
    if not sources and not setup:
        raise click.UsageError("name at least one SOURCE, or --setup")
    try:
        if setup:
            click.echo(f"vLLM is installed: {install(Path(FOLDER))}", err=True)
            if not sources:
                return ExitCode.PASS
        report = check_with_dry_load(
            sources,
            gpu=gpu,
            tensor_parallel=tensor_parallel,
            vllm_python=vllm_python or usual_python(),
            limits=Limits(timeout, int(memory * (1 << 30))),
        )
    except DryLoadError as error:
        click.echo(f"quantgate: {error}", err=True)
        return ExitCode.UNVERIFIED
    _show(report, json_file, markdown_file)
    return exit_code(report)


@app.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--json", "json_file", metavar="FILE", help="Write the JSON report; - is stdout.")
@click.option("--markdown", "markdown_file", metavar="FILE", help="Write Markdown; - is stdout.")
@click.option(
    "--vllm-python",
    metavar="PYTHON",
    help="A Python that has vLLM; without it, that of `dry-load --setup`, or else this one.",
)
@click.option(
    "--device", default="auto", show_default=True, help="auto, cuda, rocm, xpu or cpu; no other."
)
@click.option(
    "--dtype",
    default="auto",
    show_default=True,
    help="auto, float16, bfloat16 or float32; auto is float16 on a CPU.",
)
@click.option(
    "--tp",
    "tensor_parallel",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="How many devices share the weights.",
)
@click.option(
    "--max-model-len",
    type=click.IntRange(min=16),
    metavar="TOKENS",
    help="Context; what the text and the prompts need if not given.",
)
@click.option("--prompts", "prompts_file", metavar="FILE", help="Prompts, one a line.")
@click.option(
    "--base",
    "--reference",
    "reference",
    metavar="SOURCE",
    help="The model that was quantized, loaded as well: what both say is compared.",
)
@click.option(
    "--max-perplexity",
    type=click.FloatRange(min=0),
    default=0,
    help="Of a short English text; without it, an eighth of the vocabulary, at most 1000.",
)
@click.option(
    "--max-perplexity-ratio",
    type=click.FloatRange(min=0),
    default=1.5,
    show_default=True,
    help="Perplexity over that of the reference.",
)
@click.option(
    "--max-divergence",
    type=click.FloatRange(min=0),
    default=0.5,
    show_default=True,
    help="KL divergence from the reference, in nats.",
)
@click.option(
    "--max-repetition",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Share of answers that may be one token again and again.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=1800,
    show_default=True,
    metavar="SECONDS",
    help="For starting up, and for each step.",
)
@click.option(
    "--memory",
    type=click.FloatRange(min=0.5),
    metavar="GB",
    help="For vLLM's processes; nine tenths of the machine's if not given.",
)
def smoke(
    *,
    sources: tuple[str, ...],
    json_file: str | None,
    markdown_file: str | None,
    vllm_python: str | None,
    device: str,
    dtype: str,
    tensor_parallel: int,
    max_model_len: int | None,
    prompts_file: str | None,
    reference: str | None,
    max_perplexity: float,
    max_perplexity_ratio: float,
    max_divergence: float,
    max_repetition: float,
    timeout: float,
    memory: float | None,
) -> int:
    """Load models with their weights in a real vLLM, and see whether they talk sense.

    Needs vLLM in some Python, and a device that holds the model. The headers are checked, too.

    Exit code: 0 sane, 1 would not work, 2 wrong usage, 3 could not be told, 4 internal error.
    """
    from quantgate.exit_code import ExitCode, exit_code
    from quantgate.vllm.children.ending import interruptible
    from quantgate.vllm.children.process import Limits
    from quantgate.vllm.dry_load.install import usual_python
    from quantgate.vllm.smoke import DEVICES, DTYPES, Settings, SmokeError, Thresholds
    from quantgate.vllm.smoke.join import check_with_smoke_load
    from quantgate.vllm.smoke.settings import bundled, most_memory, prompts_in

    _one_stdout(json_file, markdown_file)
    for option, value, allowed in (("--device", device, DEVICES), ("--dtype", dtype, DTYPES)):
        if value not in allowed:
            raise click.UsageError(f"{option} {value!r} is none of {', '.join(allowed)}")
    try:
        prompts = prompts_in(_read(prompts_file) or bundled("prompts.txt"))
    except ValueError as error:
        raise click.UsageError(f"--prompts: {error}") from None
    settings = Settings(
        vllm_python=vllm_python or usual_python(),
        device=device,
        dtype=dtype,
        tensor_parallel=tensor_parallel,
        max_model_len=max_model_len or 0,
        prompts=prompts,
        limits=Limits(timeout, int(memory * (1 << 30)) if memory else most_memory()),
        thresholds=Thresholds(
            perplexity=max_perplexity,
            repetition=max_repetition,
            ratio=max_perplexity_ratio,
            divergence=max_divergence,
        ),
    )
    try:
        with interruptible():
            report = check_with_smoke_load(sources, settings, reference=reference)
    except SmokeError as error:
        click.echo(f"quantgate: {error}", err=True)
        return ExitCode.UNVERIFIED
    _show(report, json_file, markdown_file)
    return exit_code(report)


@app.command()
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


@app.command()
@click.argument("rule", type=RuleType(), metavar="RULE")
def explain(rule: Rule) -> None:
    """Show the page of a rule: what it checks, why it matters, how to fix it."""
    click.echo(f"{rule.id} {rule.name} ({rule.severity}, since {rule.since})\n\n{rule.page}")


@app.command()
def rules() -> None:
    """List every rule."""
    from quantgate.rules import all_rules

    for rule in all_rules():
        click.echo(f"{rule.id}  {rule.severity:<7}  {rule.name:<32}  {rule.summary}")


@app.command()
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


@app.command()
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


if __name__ == "__main__":
    sys.exit(main())
