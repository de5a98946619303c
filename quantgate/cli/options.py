"""Options and types that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from quantgate.rules import Rule
    from quantgate.targets import Target


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

python_with_vllm = click.option(
    "--vllm-python",
    metavar="PYTHON",
    help="A Python that has vLLM; without it, that of `dry-load --setup`, or else this one.",
)

json_report = click.option(
    "--json", "json_file", metavar="FILE", help="Write the JSON report; - is stdout."
)
markdown_report = click.option(
    "--markdown", "markdown_file", metavar="FILE", help="Write Markdown; - is stdout."
)
own_template = click.option(
    "--template", metavar="FILE", help="A Jinja template of your own for --markdown."
)
sarif_report = click.option(
    "--sarif", "sarif_file", metavar="FILE", help="Write SARIF 2.1.0; - is stdout."
)
fail_on_severity = click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
