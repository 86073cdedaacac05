"""`nearcast rebalance`: another plan, or other partitions, for a stream that goes on."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from nearcast.cli._console import UsageMistake
from nearcast.cli._options import JsonOption


def rebalance(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The folder given as --checkpoint.")],
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="PLAN", help="Such as trigger or space-first(2x4); else that at present."),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", metavar="P", help="How many; else as many as there are.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Ask a stream to spread its subscriptions anew when its next batch begins; nothing is lost or told twice."""
    from nearcast.errors import InvalidInput
    from nearcast.pipeline.driver.rebalance import ask_checkpoint

    try:
        asked = ask_checkpoint(checkpoint, plan, partitions)
    except InvalidInput as error:
        raise UsageMistake(str(error)) from None
    if as_json:
        typer.echo(json.dumps(asked))
        return 0
    n = asked["partitions"]
    spread = f"plan {asked['plan']} with {n:,} partition{'' if n == 1 else 's'}"
    typer.echo(f"{checkpoint}: from the next batch on, {spread}")
    return 0
