"""`nearcast bench calls`: what single calls of a hub cost."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from nearcast.cli._bench_options import JsonFileOption, check_json, write_json
from nearcast.cli._console import StepProgress, stdout
from nearcast.cli._options import SeedOption


def calls(
    subscriptions: Annotated[int, typer.Option(min=1, help="How many the hub holds.")] = 100_000,
    number: Annotated[int, typer.Option("--calls", min=1, help="How many calls of each kind are timed.")] = 2_000,
    seed: SeedOption = 1,
    json_file: JsonFileOption = None,
) -> int:
    """Time single calls of a hub: CPU microseconds per subscribe, move, publish, delivery and row of a table."""
    from nearcast.bench.calls import run_calls

    check_json(json_file)
    command = f"nearcast bench calls --subscriptions {subscriptions} --calls {number} --seed {seed}"
    with StepProgress() as steps:
        steps.begin("calling a hub")
        report = run_calls(subscriptions, number, seed=seed, command=command)
    table = Table("call", "CPU µs")
    for name, us in report["us"].items():
        table.add_row(name, f"{us:,.2f}")
    stdout().print(table, f"{subscriptions:,} subscriptions; {command}", sep="\n")
    write_json(report, json_file)
    return 0
