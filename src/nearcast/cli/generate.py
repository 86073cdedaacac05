"""`nearcast generate`: a seeded workload as two files, or three where subscriptions move."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli._bench_arguments import must_fit
from nearcast.cli._bench_data import DataOption, data_file
from nearcast.cli._console import UsageMistake
from nearcast.cli._generate_moving import (
    AreaOption,
    IntervalOption,
    LifeOption,
    MobilityOption,
    MovingArguments,
    MovingOption,
    ReplayOption,
    RoadsOption,
    SpeedOption,
    TimestampsOption,
    write_moving,
)
from nearcast.cli._options import SeedOption, SpaceName


class WorkloadKind(StrEnum):
    """What the subscriptions ask for."""

    WITHIN = "within"
    SIMILAR = "similar"
    TOPK = "topk"


def generate(
    out: Annotated[Path, typer.Argument(help="Folder for subscriptions.parquet and messages.parquet.")],
    kind: Annotated[WorkloadKind, typer.Option(help="Kind of all subscriptions.")] = WorkloadKind.WITHIN,
    subscriptions: Annotated[int, typer.Option(min=1, help="How many subscriptions.")] = 100_000,
    messages: Annotated[
        int, typer.Option(min=1, help="How many messages; with --moving, how many live at any time.")
    ] = 20_000,
    seed: SeedOption = 1,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Draw words and places from rows of FILE (text and lon, lat or x, y); NAME is looked up in --data.",
        ),
    ] = None,
    data: DataOption = None,
    space: Annotated[SpaceName | None, typer.Option(help="Where generated places lie; plane unless given.")] = None,
    moving: MovingOption = False,
    roads: RoadsOption = None,
    replay: ReplayOption = None,
    speed: SpeedOption = None,
    mobility: MobilityOption = None,
    timestamps: TimestampsOption = None,
    interval: IntervalOption = None,
    life: LifeOption = None,
    region_area: AreaOption = None,
) -> int:
    """Write a seeded workload: Zipf words and clustered places, or those of a data file; or one that is --moving."""
    from nearcast.bench.data import workloads

    if out.exists() and not out.is_dir():
        raise UsageMistake(f"{out} is a file; name a folder")
    must_fit("--subscriptions", subscriptions)
    must_fit("--messages", messages)
    how = MovingArguments(roads, replay, speed, mobility, timestamps, interval, life, region_area)
    if moving:
        said = write_moving(
            out,
            how,
            kind=kind,
            subscriptions=subscriptions,
            messages=messages,
            seed=seed,
            source=source,
            data=data,
            space=space,
        )
        typer.echo(said)
        return 0
    how.must_be_left_out()
    if source is None:
        made = workloads.generated(
            kind=kind, subscriptions=subscriptions, messages=messages, seed=seed, space=space or SpaceName.PLANE
        )
    else:
        path = data_file("--source", source, data)
        made = workloads.drawn_from(path, kind=kind, subscriptions=subscriptions, messages=messages, seed=seed)
        told = SpaceName.EARTH if "lon" in made.messages.column_names else SpaceName.PLANE
        if space not in (None, told):
            raise UsageMistake(f"--space {space}: the columns of {source} tell the {told}; leave it out")
    workloads.save_workload(made, out)
    typer.echo(f"{subscriptions:,} subscriptions and {messages:,} messages in {out}")
    return 0
