"""`nearcast bench cluster`: what a cluster would hold, by a model fitted to reports of `nearcast bench spark`."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._bench_options import JsonFileOption, check_json, write_json
from nearcast.cli._console import UsageMistake, stdout

if TYPE_CHECKING:
    from nearcast.bench.spark.cluster_model import Cluster

_CLUSTER = re.compile(r"([1-9][0-9]*)x([1-9][0-9]*)")
_CHECK = {
    "workers": ("workers", "{:,}"),
    "cores": ("cores", "{:,}"),
    "subscriptions": ("subscriptions", "{:,}"),
    "batch": ("messages", "{:,}"),
    "measured_s": ("measured s", "{:,.3f}"),
    "model_s": ("model s", "{:,.3f}"),
    "ratio": ("ratio", "{:,.2f}"),
}
_ROWS = {
    "cluster": ("hosts x cores", "{}"),
    "messages_per_s": ("messages/s", "{:,.0f}"),
    "deliveries_per_s": ("deliveries/s", "{:,.0f}"),
    "fixed_share": ("fixed", "{:.0%}"),
    "driver_share": ("driver", "{:.0%}"),
    "every_share": ("every", "{:.0%}"),
    "divided_share": ("divided", "{:.0%}"),
    "first": ("saturates first", "{}"),
    "most_messages_per_s": ("large batches, /s", "{:,.0f}"),
    "network_mb_per_s": ("MB/s a host", "{:,.0f}"),
    "mapped_gb": ("mapped GB a host", "{:,.1f}"),
    "private_gb": ("private GB a host", "{:,.1f}"),
}


def cluster(
    reports: Annotated[list[Path], typer.Argument(metavar="REPORT…", help="Files of nearcast bench spark --json.")],
    subscriptions: Annotated[int, typer.Option(min=1, help="How many the cluster holds.")] = 100_000_000,
    clusters: Annotated[
        list[str] | None, typer.Option("--cluster", metavar="HOSTSxCORES", help="May be repeated; 10x8 and 100x8.")
    ] = None,
    trigger: Annotated[float, typer.Option(metavar="SECONDS", min=0.001, help="Of a batch.")] = 10.0,
    answers: Annotated[
        float | None, typer.Option(metavar="N", min=0.0, help="Deliveries of a message; else they grow as measured.")
    ] = None,
    json_file: JsonFileOption = None,
) -> int:
    """Say what a cluster would hold, and which part of a batch saturates first; the model is checked beside reports."""
    from nearcast.bench.report import print_rows
    from nearcast.bench.spark.cluster_model import check_rows, cluster_row, constants_of
    from nearcast.errors import InvalidInput

    check_json(json_file)
    chosen = [_cluster(each) for each in clusters or ["10x8", "100x8"]]
    given = [_report(path) for path in reports]
    try:
        constants = constants_of(given)
    except InvalidInput as error:
        raise UsageMistake(str(error)) from None
    checks = check_rows(constants, given)
    rows = [cluster_row(constants, each, subscriptions, trigger, answers) for each in chosen]
    console = stdout()
    console.print("What was measured, and what the model says:", highlight=False)
    print_rows(console, checks, _CHECK)
    console.print(f"{subscriptions:,} subscriptions, a batch every {trigger:g} s:", highlight=False)
    print_rows(console, rows, _ROWS)
    write_json({"constants": asdict(constants), "checks": checks, "clusters": rows}, json_file)
    return 0


def _cluster(given: str) -> Cluster:
    from nearcast.bench.spark.cluster_model import Cluster

    found = _CLUSTER.fullmatch(given)
    if found is None:
        raise UsageMistake(f"--cluster is {given!r}; expected hosts and cores of each, such as 10x8")
    return Cluster(int(found[1]), int(found[2]))


def _report(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageMistake(f"{path} is no report: {error}") from None
    if not isinstance(found, dict):
        raise UsageMistake(f"{path} is no report of nearcast bench spark --json")
    return found
