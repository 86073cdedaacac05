"""`nearcast explain`: why does this subscription get, or not get, this message?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli._console import complain
from nearcast.cli._inputs import Source, open_sources, space_of_sources
from nearcast.cli._options import JsonOption, MapOption, MessagesFile, SpaceOption, SubscriptionsFile
from nearcast.errors import InvalidColumns

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.columns import Messages
    from nearcast.geo import Space
    from nearcast.model import Message
    from nearcast.tables import Rejected
    from nearcast.text.words import WordTable


def explain(
    subscriptions: SubscriptionsFile,
    messages: MessagesFile,
    subscription: Annotated[str, typer.Option(metavar="ID", help="Id of the subscription.")],
    message: Annotated[str, typer.Option(metavar="ID", help="Id of the message; of several the first counts.")],
    space: SpaceOption = None,
    maps: MapOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say which step lets a message through to a subscription, or drops it."""
    from nearcast.hub import Hub
    from nearcast.tables import Rejected, read_subscriptions
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

    sources = open_sources(subscriptions, messages, maps or [])
    hub = Hub(space_of_sources(sources, space))
    rejected = Rejected()
    asked = _first(sources[0], subscription)
    named = read_subscriptions(asked, hub.space, WordTable(), Analyzer(), rejected=rejected)
    posted = _message(_first(sources[1], message), hub.space, rejected)
    for row in rejected:
        raise InvalidColumns(f"{row.source} row {row.row} cannot be used: {row.field}: {row.reason}", field=row.field)
    hub.subscribe_many(asked)
    explanation = hub.explain(posted, named.ids[0].as_py())
    typer.echo(json.dumps(explanation.to_dict()) if as_json else str(explanation))
    return 0


def _first(source: Source, wanted: str) -> pa.Table:
    """Return the first row with that id, compared as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from nearcast.tables import Rejected
    from nearcast.tables.cells import TableRows

    found, count = None, 0
    for batch in source.batches(Rejected()):
        ids = TableRows(batch, source.name, 0).ids().cast(pa.string())
        rows = batch.filter(pc.equal(ids, wanted))
        count += rows.num_rows
        if found is None and rows.num_rows:
            found = rows.slice(0, 1)
    if found is None:
        raise InvalidColumns(f"{source.path} has no row with the id {wanted!r}; ids are compared as text", field="id")
    if count > 1:
        complain(f"{source.path} has {count:,} rows with the id {wanted!r}; the first is explained")
    return found


def _message(row: pa.Table, space: Space, rejected: Rejected) -> Message | None:
    """Return the message of a table of one row, None if it was rejected."""
    from nearcast.tables import read_messages
    from nearcast.text import Analyzer
    from nearcast.text.words import WordTable

    words = WordTable()
    columns = read_messages(row, space, words, Analyzer(), add_words=True, rejected=rejected)
    return message_of(columns, words) if len(columns) else None


def message_of(columns: Messages, words: WordTable) -> Message:
    """Return the first row of encoded messages as a value again."""
    import pyarrow as pa

    from nearcast.columns import datetime_of
    from nearcast.model import Message

    # "" stands where text ends and given terms begin: no query has such a word, so no phrase reaches across.
    terms = [words.word(term) if term >= 0 else "" for term in columns.terms_of(0).tolist()]
    x_min, y_min, x_max, y_max = columns.box[0].tolist()
    place = (x_min, y_min) if (x_min, y_min) == (x_max, y_max) else (x_min, y_min, x_max, y_max)
    time = datetime_of(int(columns.time[0]))
    return Message(pa.array(columns.ids)[0].as_py(), place=place, terms=tuple(terms), time=time)
