"""`nearcast generate`: a seeded workload as two files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli._console import UsageMistake
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
    messages: Annotated[int, typer.Option(min=1, help="How many messages.")] = 20_000,
    seed: SeedOption = 1,
    source: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw words and places from the rows of FILE (text and lon, lat or x, y)."),
    ] = None,
    space: Annotated[SpaceName | None, typer.Option(help="Where generated places lie; plane unless given.")] = None,
) -> int:
    """Write a seeded workload: Zipf words and clustered places, or words and places of a data file."""
    from nearcast.bench.data import workloads

    if out.exists() and not out.is_dir():
        raise UsageMistake(f"{out} is a file; name a folder")
    if source is None:
        made = workloads.generated(
            kind=kind, subscriptions=subscriptions, messages=messages, seed=seed, space=space or SpaceName.PLANE
        )
    else:
        made = workloads.drawn_from(source, kind=kind, subscriptions=subscriptions, messages=messages, seed=seed)
        told = SpaceName.EARTH if "lon" in made.messages.column_names else SpaceName.PLANE
        if space not in (None, told):
            raise UsageMistake(f"--space {space}: the columns of {source} tell the {told}; leave it out")
    workloads.save_workload(made, out)
    typer.echo(f"{subscriptions:,} subscriptions and {messages:,} messages in {out}")
    return 0
