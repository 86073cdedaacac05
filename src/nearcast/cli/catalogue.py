"""`nearcast indexes`, `nearcast version` and `nearcast demo`: what there is."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import typer

from nearcast.cli._console import stdout
from nearcast.cli._options import EngineName, JsonOption, SeedOption


def indexes(as_json: JsonOption = False) -> int:
    """List the indexes, the kinds they match, where they come from, and their options."""
    from nearcast.indexes import available

    if as_json:
        typer.echo(json.dumps([info.as_json() for info in available()]))
        return 0
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "kinds", "options", "paper"):
        table.add_column(heading, overflow="fold")
    for info in available():
        options = ", ".join(f"{name}={value}" for name, value in info.options.items())
        table.add_row(info.name, ", ".join(info.kinds), options or "none", info.paper)
    stdout().print(table)
    return 0


def version() -> int:
    """Print the version of nearcast."""
    from nearcast import __version__

    typer.echo(__version__)
    return 0


def demo(
    subscriptions: Annotated[int, typer.Option(min=100, help="How many people subscribe.")] = 20_000,
    messages: Annotated[int, typer.Option(min=100, help="How many messages are published.")] = 5_000,
    seed: SeedOption = 1,
    engine: Annotated[
        EngineName | None, typer.Option(help="spark: as a stream first, if Spark is installed; local: a hub alone.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0, help="How long the town lives; 20 without a terminal, else until Ctrl-C. 0: no town."),
    ] = None,
) -> int:
    """Match an evening of messages in a made-up city, explain a few answers, then open a living town to watch.

    The city is matched as a stream and in one process. The town is behind a server on loopback, whose page shows it.
    """
    from nearcast.demo import run
    from nearcast.demo.stream import has_spark

    on_spark = engine is EngineName.SPARK or (engine is None and has_spark())
    with _kernels_of_town(seconds):
        run(stdout(), subscriptions=subscriptions, messages=messages, seed=seed, on_spark=on_spark)
    return _town(seconds, seed)


def _kernels_of_town(seconds: float | None) -> AbstractContextManager[None]:
    """Compile what the town needs meanwhile, if there will be one."""
    from nearcast.demo.town import has_server
    from nearcast.demo.town_kernels import compiling

    return nullcontext() if seconds == 0 or not has_server() else compiling(stdout())


def _town(seconds: float | None, seed: int) -> int:
    """Let the town live; return 1 if events did not come that should have."""
    from nearcast.demo.town import PLAY_S, has_server, play

    console = stdout()
    if seconds == 0:
        return 0
    if not has_server():
        console.print("The living town needs the server: pip install 'nearcast[server]'", soft_wrap=True, markup=False)
        return 0
    if seconds is None and not console.is_terminal:
        seconds = PLAY_S
    return 0 if play(console, seconds=seconds, seed=seed) else 1
