"""Options that several commands take, each described once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class SpaceName(StrEnum):
    """Where messages and subscriptions live."""

    EARTH = "earth"
    PLANE = "plane"


class EngineName(StrEnum):
    """What does the work."""

    LOCAL = "local"
    SPARK = "spark"


_FORMATS = ".parquet, .jsonl, .ndjson, .csv, .geojson or .geojsonl"

SubscriptionsFile = Annotated[Path, typer.Option("--subscriptions", help=f"File of subscriptions: {_FORMATS}.")]
MessagesFile = Annotated[Path, typer.Option("--messages", help=f"File of messages: {_FORMATS}.")]
SpaceOption = Annotated[SpaceName | None, typer.Option("--space", help="Needed only where the columns do not tell it.")]
MapOption = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="NEW=OLD", help="Use the column OLD as NEW, such as time=ts; may be repeated."),
]
DeliveryIdsOption = Annotated[
    bool,
    typer.Option("--delivery-ids", help="Parquet with a column delivery_id, which other formats have anyhow."),
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Refuse columns that look misspelt, and rows with values of another kind.")
]
VocabularyOption = Annotated[
    Path | None,
    typer.Option(
        "--vocabulary",
        help="Parquet file of what words weigh (term, df, maybe weight); else it is learned from the messages.",
    ),
]
MaxDistanceOption = Annotated[
    float | None,
    typer.Option(
        "--max-distance",
        metavar="LENGTH",
        help="For scored subscriptions that give none: where nearness ends, in metres, or units of a plane.",
    ),
]
WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="N|TIME",
        help="What top-k subscriptions look at: the last 100000 messages, or those of the last 30s, 15m, 2h, 7d.",
    ),
]
LifetimeOption = Annotated[
    str | None,
    typer.Option(
        "--lifetime",
        metavar="expires|TIME",
        help="Let messages live until their expires, or those without one for 30s, 15m, 2h, 7d; else all are instants.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
SeedOption = Annotated[int, typer.Option("--seed", help="The same seed gives the same data.")]
