"""`nearcast bench server`: a server under load on loopback, beside the aims; a soak."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from nearcast.cli._bench_options import JsonFileOption, check_json, write_json
from nearcast.cli._console import StepProgress, UsageMistake, complain, stdout
from nearcast.cli._options import SeedOption

if TYPE_CHECKING:
    from nearcast.bench.server.workload import ServerSizes

#: Messages a second of a soak.
_RATE = 200
_NEEDS_EXTRA = "the server needs more packages; install them with: pip install 'nearcast[server]'"


def server(
    subscriptions: Annotated[int, typer.Option(min=1, help="How many the server holds.")] = 1_000_000,
    subscribers: Annotated[int, typer.Option(min=1, help="How many subscribers have them.")] = 100_000,
    streams: Annotated[int, typer.Option(min=1, help="How many streams are open at once.")] = 10_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="For how long each row is measured.")] = 5.0,
    batch: Annotated[int, typer.Option(min=1, max=1_000, help="How many messages or places a batch has.")] = 1_000,
    log_messages: Annotated[
        int, typer.Option(min=1, metavar="N", help="Messages in the minute of log of the row ready.")
    ] = 120_000,
    endpoints: Annotated[int, typer.Option(min=1, metavar="N", help="Endpoints of webhooks that answer.")] = 200,
    dead: Annotated[int, typer.Option(min=0, metavar="N", help="Endpoints of webhooks that are dead.")] = 1_000,
    deliveries: Annotated[
        int, typer.Option(min=1, metavar="N", help="Deliveries that are published before subscribers resume.")
    ] = 10_000_000,
    only: Annotated[str | None, typer.Option(metavar="ROW", help="Measure this row alone.")] = None,
    soak: Annotated[
        float | None,
        typer.Option(metavar="MINUTES", help="Load it steadily for so long instead, and watch memory and disk."),
    ] = None,
    rate: Annotated[int | None, typer.Option(min=1, help="Of a soak: messages a second; 200 unless given.")] = None,
    folder: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the data lies for the time.")] = None,
    seed: SeedOption = 1,
    json_file: JsonFileOption = None,
) -> int:
    """Load a real server on loopback from another process, having compared its answers with a hub in memory."""
    try:
        from nearcast.bench.server.rows import NAMES
        from nearcast.bench.server.run import run_server
        from nearcast.bench.server.workload import ServerSizes
        from nearcast.server import run as _  # noqa: F401  only whether it can be imported
    except ImportError as error:
        raise UsageMistake(f"{_NEEDS_EXTRA} ({error})") from None
    check_json(json_file)
    if only is not None and only not in NAMES:
        raise UsageMistake(f"--only {only}: there is no such row; choose from {', '.join(NAMES)}")
    _check_soak(soak, rate, only)
    sizes = ServerSizes(
        subscriptions=subscriptions,
        subscribers=min(subscribers, subscriptions),
        streams=min(streams, subscribers, subscriptions),
        seconds=seconds,
        batch=batch,
        minute=log_messages,
        endpoints=endpoints,
        dead_endpoints=dead,
        deliveries=deliveries,
    )
    command = (
        f"nearcast bench server --subscriptions {subscriptions} --subscribers {subscribers} --streams {streams} "
        f"--seconds {seconds:g} --batch {batch} --log-messages {log_messages} --endpoints {endpoints} --dead {dead} "
        f"--deliveries {deliveries} --seed {seed}" + ("" if only is None else f" --only {only}")
    )
    if soak is not None:
        report = _soak(sizes, soak, rate or _RATE, seed, folder)
        write_json(report, json_file)
        return 0
    with StepProgress() as steps:
        report = run_server(sizes, seed=seed, command=command, only=only, folder=folder, begin=steps.begin)
    stdout().print(_table(report), f"{report['events_compared']:,} events compared first", command, sep="\n")
    write_json(report, json_file)
    return 0


def _check_soak(soak: float | None, rate: int | None, only: str | None) -> None:
    """Refuse a soak that cannot be, and options that do not go together."""
    if soak is None:
        if rate is not None:
            raise UsageMistake("--rate is for a --soak")
    elif not 0 < soak < float("inf"):
        raise UsageMistake(f"--soak {soak}: give minutes, more than 0")
    elif only is not None:
        raise UsageMistake("a --soak has no rows; leave out --only")


def _soak(sizes: ServerSizes, minutes: float, rate: int, seed: int, folder: Path | None) -> dict[str, Any]:
    """Load a server steadily, printing what is seen; return the report."""
    from nearcast.bench.report import machine
    from nearcast.bench.server.soak import run_soak, summary

    samples = run_soak(sizes, minutes * 60, rate, seed=seed, folder=folder, say=complain)
    found = summary(samples)
    typer.echo(f"Soak of {found.get('seconds', 0) / 60:,.1f} minutes: {found['verdict']}")
    about = {"question": "Do memory and disk of a server stay as they are?", **sizes.to_json(), "seed": seed}
    about["command"] = (
        f"nearcast bench server --soak {minutes:g} --rate {rate} --subscriptions {sizes.subscriptions} "
        f"--subscribers {sizes.subscribers} --batch {sizes.batch} --seed {seed}"
    )
    return {"workload": about, "machine": machine(), "results": found, "samples": samples}


def _table(report: dict[str, Any]) -> Table:
    table = Table("row", "figure", "value", "aim", "")
    for each in report["figures"]:
        value = "not known" if each["value"] is None else f"{each['value']:,.3g}" if each["value"] < 100 else None
        shown = value or f"{each['value']:,.0f}"
        aim = f"{each['aim_is']} {each['aim']:,g}" if "aim" in each else ""
        met = {True: "met", False: "missed", None: ""}[each.get("is_met")]
        table.add_row(each["row"], each["figure"], f"{shown} {each['unit']}".strip(), aim, met)
    return table
