"""`quantgate dry-load` and `quantgate smoke`: what needs vLLM."""

from __future__ import annotations

import click

from quantgate.cli.options import json_report, markdown_report, python_with_vllm, read_lfs
from quantgate.cli.output import one_stdout, read, show


@click.command("dry-load")
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
@json_report
@markdown_report
@python_with_vllm
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
@read_lfs
@click.option("--setup", is_flag=True, help="First install vLLM's CPU build for yourself.")
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
    lfs: str,
    setup: bool,
) -> int:
    """Run vLLM's own loader on headers alone, as if on a chosen GPU; and check them, too.

    Neither a GPU nor weights are needed, but vLLM is, in some Python.

    Exit code: 0 loads, 1 would not work, 2 wrong usage, 3 could not be told, 4 internal error.
    """
    from quantgate.checkpoint.lfs_mode import Lfs
    from quantgate.exit_code import ExitCode, exit_code
    from quantgate.vllm.dry_load import CPU, GPUS, DryLoadError, Limits
    from quantgate.vllm.dry_load.install import install, usual_folder, usual_python
    from quantgate.vllm.dry_load.join import check_with_dry_load

    one_stdout(json_file, markdown_file)
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
            click.echo(f"vLLM is installed: {install(usual_folder())}", err=True)
            if not sources:
                return ExitCode.PASS
        report = check_with_dry_load(
            sources,
            gpu=gpu,
            tensor_parallel=tensor_parallel,
            vllm_python=vllm_python or usual_python(),
            limits=Limits(timeout, int(memory * (1 << 30))),
            lfs=Lfs(lfs),
        )
    except DryLoadError as error:
        click.echo(f"quantgate: {error}", err=True)
        return ExitCode.UNVERIFIED
    show(report, json_file, markdown_file)
    return exit_code(report)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@json_report
@markdown_report
@python_with_vllm
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
@click.option(
    "--lfs",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Whether to fetch files behind Git LFS pointers, into a scratch folder; as of `check`.",
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
    lfs: str,
) -> int:
    """Load models with their weights in a real vLLM, and see whether they talk sense.

    Needs vLLM in some Python, and a device that holds the model. The headers are checked, too.

    Exit code: 0 sane, 1 would not work, 2 wrong usage, 3 could not be told, 4 internal error.
    """
    from quantgate.checkpoint.lfs_mode import Lfs
    from quantgate.exit_code import ExitCode, exit_code
    from quantgate.vllm.children.ending import interruptible
    from quantgate.vllm.children.process import Limits
    from quantgate.vllm.dry_load.install import usual_python
    from quantgate.vllm.smoke import DEVICES, DTYPES, Settings, SmokeError, Thresholds
    from quantgate.vllm.smoke.join import check_with_smoke_load
    from quantgate.vllm.smoke.settings import bundled, most_memory, prompts_in

    one_stdout(json_file, markdown_file)
    for option, value, allowed in (("--device", device, DEVICES), ("--dtype", dtype, DTYPES)):
        if value not in allowed:
            raise click.UsageError(f"{option} {value!r} is none of {', '.join(allowed)}")
    try:
        prompts = prompts_in(read(prompts_file) or bundled("prompts.txt"))
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
        lfs=Lfs(lfs),
    )
    try:
        with interruptible():
            report = check_with_smoke_load(sources, settings, reference=reference)
    except SmokeError as error:
        click.echo(f"quantgate: {error}", err=True)
        return ExitCode.UNVERIFIED
    show(report, json_file, markdown_file)
    return exit_code(report)
