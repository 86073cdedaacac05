"""`nearcast estimate`: about how many messages a day would this subscription get?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearcast.cli._console import StepProgress, UsageMistake
from nearcast.cli._inputs import InputFile, check_max_distance, renames_from, vocabulary_of
from nearcast.cli._options import (
    JsonOption,
    MapOption,
    MaxDistanceOption,
    MessagesFile,
    SpaceOption,
    StrictOption,
    VocabularyOption,
)
from nearcast.cli._rejected import EXIT_REJECTED, show_rejected
from nearcast.errors import InvalidColumns

if TYPE_CHECKING:
    from nearcast.geo import Space


def estimate(
    messages: MessagesFile,
    subscription: Annotated[
        str, typer.Option(metavar="JSON|ID", help="The subscription as a JSON object, or its id in --subscriptions.")
    ],
    subscriptions: Annotated[
        Path | None, typer.Option(help="File of subscriptions, where --subscription is an id.")
    ] = None,
    messages_per_day: Annotated[
        float | None, typer.Option(metavar="N", help="Messages a day, where the times of the sample do not tell.")
    ] = None,
    space: SpaceOption = None,
    vocabulary: VocabularyOption = None,
    max_distance: MaxDistanceOption = None,
    maps: MapOption = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> int:
    """Judge by a sample how many messages a day a subscription would get, and under which settings more or fewer."""
    from nearcast.hub import Hub
    from nearcast.tables import Rejected

    check_max_distance(max_distance)
    if messages_per_day is not None and not 0 <= messages_per_day < float("inf"):
        raise UsageMistake(f"--messages-per-day is {messages_per_day}; expected a finite number, 0 or more")
    renames = renames_from(maps or [])
    sample = InputFile(messages, "messages", renames)
    asked, columns = _asked(subscription, subscriptions, renames)
    where = _space([*sample.columns, *columns], space)
    lines = Rejected()
    with StepProgress() as steps:
        hub = Hub(where, max_distance=max_distance)
        hub.use_vocabulary(vocabulary_of(vocabulary, sample, where, steps))
        steps.begin("reading the sample", sample.total())
        found = hub.estimate(asked, sample.table(lines), messages_per_day=messages_per_day, strict=strict)
    typer.echo(json.dumps(found.to_dict()) if as_json else str(found))
    lines.extend(found.rejected)
    show_rejected(lines, "nearcast match --rejected FILE writes them all")
    return EXIT_REJECTED if len(lines) else 0


def _asked(given: str, file: Path | None, renames: dict[str, str]) -> tuple[Any, list[str]]:
    """Return the subscription, a dict or a table of one row, and its columns."""
    if file is not None:
        source = InputFile(file, "subscriptions", renames)
        return source.row_of(given), source.columns
    try:
        value = json.loads(given)
    except ValueError as error:
        raise UsageMistake(
            f"--subscription is no JSON ({error}); give an object such as"
            ' {"query": "ramen", "kind": "similar", ...}, or name a file with --subscriptions and an id in it'
        ) from None
    if not isinstance(value, dict):
        raise UsageMistake(f"--subscription is {given}; expected a JSON object, or name a file with --subscriptions")
    return {"id": "estimate", **value}, list(value)


def _space(columns: list[str], given: str | None) -> Space:
    from nearcast.tables import space_of

    try:
        return space_of(columns, given)
    except InvalidColumns as error:
        raise InvalidColumns(f"sample and subscription: {error}", field=error.field, remedy=error.remedy) from None
