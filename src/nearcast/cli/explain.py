"""`nearcast explain`: why does this subscription get, or not get, this message?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli._console import StepProgress
from nearcast.cli._inputs import (
    InputFile,
    check_max_distance,
    need_window,
    open_inputs,
    space_of_inputs,
    vocabulary_of,
    window_of,
)
from nearcast.cli._options import (
    JsonOption,
    MapOption,
    MaxDistanceOption,
    MessagesFile,
    SpaceOption,
    StrictOption,
    SubscriptionsFile,
    VocabularyOption,
    WindowOption,
)
from nearcast.cli._rejected import show_warnings
from nearcast.errors import InvalidColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.geo import Space
    from nearcast.hub import Hub
    from nearcast.model import Message
    from nearcast.tables import Rejected


def explain(
    subscriptions: SubscriptionsFile,
    messages: MessagesFile,
    subscription: Annotated[str, typer.Option(metavar="ID", help="Id of the subscription.")],
    message: Annotated[str, typer.Option(metavar="ID", help="Id of the message; of several the first counts.")],
    space: SpaceOption = None,
    vocabulary: VocabularyOption = None,
    max_distance: MaxDistanceOption = None,
    window: WindowOption = None,
    maps: MapOption = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> int:
    """Say which step lets a message through to a subscription, or drops it.

    For a subscription of kind topk: where the message ranks when it arrives, after those before it in the file.
    """
    from nearcast.columns import TOPK, WITHIN
    from nearcast.hub import Hub
    from nearcast.tables import Rejected, read_subscriptions
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

    check_max_distance(max_distance)
    inputs = open_inputs(subscriptions, messages, maps or [])
    hub = Hub(space_of_inputs(inputs, space), max_distance=max_distance, window=window_of(window))
    rejected = Rejected()
    asked = inputs[0].row_of(subscription)
    need_window(asked, hub.window)
    named = read_subscriptions(
        asked, hub.space, WordTable(), Analyzer(), max_distance=max_distance, strict=strict, rejected=rejected
    )
    posted = _message(inputs[1].row_of(message), hub.space, rejected, strict=strict)
    show_warnings(rejected)
    for row in rejected:
        raise InvalidColumns(f"{row.source} row {row.row} cannot be used: {row.field}: {row.reason}", field=row.field)
    if vocabulary is not None or named.kind[0] != WITHIN:
        # A score depends on what words weigh, so they are weighed as `match` does.
        with StepProgress() as steps:
            hub.use_vocabulary(vocabulary_of(vocabulary, inputs[1], hub.space, steps))
    hub.subscribe_many(asked)
    if named.kind[0] == TOPK:
        _publish_until(hub, inputs[1], message)
    explanation = hub.explain(posted, named.ids[0].as_py())
    typer.echo(json.dumps(explanation.to_dict()) if as_json else str(explanation))
    return 0


def _publish_until(hub: Hub, messages: InputFile, wanted: str) -> None:
    """Publish what stands in the file before the first message with that id."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from nearcast.tables import Rejected
    from nearcast.tables.cells import TableRows

    for batch in messages.batches(Rejected()):
        ids = TableRows(batch, messages.name, 0).ids().cast(pa.string())
        at = pc.index(ids, pa.scalar(wanted)).as_py()
        hub.publish_many(batch if at < 0 else batch.slice(0, at))
        if at >= 0:
            return


def _message(row: pa.Table, space: Space, rejected: Rejected, *, strict: bool) -> Message | None:
    """Return the message of a table of one row, None if it was rejected."""
    import pyarrow as pa

    from nearcast.columns import datetime_of
    from nearcast.model import Message
    from nearcast.tables import read_messages
    from nearcast.tables.cells import TableRows
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

    columns = read_messages(row, space, WordTable(), Analyzer(), strict=strict, rejected=rejected)
    if not len(columns):
        return None
    cells = TableRows(row, "messages", 0)
    x_min, y_min, x_max, y_max = columns.box[0].tolist()
    return Message(
        pa.array(columns.ids)[0].as_py(),
        cells.texts("text")[0].as_py(),
        (x_min, y_min) if (x_min, y_min) == (x_max, y_max) else (x_min, y_min, x_max, y_max),
        terms=cells.lists("terms")[1].to_pylist(),
        time=datetime_of(int(columns.time[0])),
    )
