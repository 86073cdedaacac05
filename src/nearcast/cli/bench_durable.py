"""`nearcast bench durable`: what a log and an outbox cost beside a hub in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from nearcast.cli._bench_options import JsonFileOption, check_json, write_json
from nearcast.cli._console import StepProgress, stdout
from nearcast.cli._options import SeedOption


def durable(
    subscriptions: Annotated[int, typer.Option(min=1, help="How many the hubs hold.")] = 1_000_000,
    subscribers: Annotated[int, typer.Option(min=1, help="How many subscribers have them.")] = 100_000,
    batches: Annotated[int, typer.Option(min=1, help="How many batches are published.")] = 100,
    batch: Annotated[int, typer.Option(min=1, help="How many messages a batch has.")] = 1_000,
    matches: Annotated[int, typer.Option(min=1, help="About how many subscriptions a message reaches.")] = 40,
    folder: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the hubs lie for the time.")] = None,
    seed: SeedOption = 1,
    json_file: JsonFileOption = None,
) -> int:
    """Time durable hubs: the same messages through a hub in memory, one with a log, and one with an outbox."""
    from nearcast.bench.durable import DurableSizes, run_durable

    check_json(json_file)
    sizes = DurableSizes(subscriptions, subscribers, batches, batch, matches)
    command = (
        f"nearcast bench durable --subscriptions {subscriptions} --subscribers {subscribers} --batches {batches} "
        f"--batch {batch} --matches {matches} --seed {seed}"
    )
    with StepProgress() as steps:
        steps.begin("publishing through three hubs")
        report = run_durable(sizes, seed=seed, folder=folder, command=command)
    table = Table("hub", "messages/s", "deliveries/s", "of memory")
    for name, speed in report["messages_per_s"].items():
        share = report["share_of_memory"][name]
        table.add_row(name, f"{speed:,}", f"{report['deliveries_per_s'][name]:,}", f"{share:.0%}")
    resumed = report["resume_ms"]
    about = (
        f"{report['bytes_per_delivery']} bytes a delivery; "
        f"resumed in {resumed['median']} ms, {resumed['largest']} ms at most"
    )
    aims = [
        f"{each['figure']}: {each['value']} (at least {each['aim']:g}, {'met' if each['is_met'] else 'missed'})"
        for each in report["aims"]
    ]
    stdout().print(table, about, *aims, command, sep="\n")
    write_json(report, json_file)
    return 0
