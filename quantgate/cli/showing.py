"""`quantgate explain` and `quantgate rules`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quantgate.cli.options import RuleType

if TYPE_CHECKING:
    from quantgate.rules import Rule


@click.command()
@click.argument("rule", type=RuleType(), metavar="RULE")
def explain(rule: Rule) -> None:
    """Show the page of a rule: what it checks, why it matters, how to fix it."""
    click.echo(f"{rule.id} {rule.name} ({rule.severity}, since {rule.since})\n\n{rule.page}")


@click.command()
def rules() -> None:
    """List every rule."""
    from quantgate.rules import all_rules

    for rule in all_rules():
        click.echo(f"{rule.id}  {rule.severity:<7}  {rule.name:<32}  {rule.summary}")
