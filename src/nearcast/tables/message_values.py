"""From a table in interchange columns to messages as values: the way back of `messages_table`."""

from itertools import pairwise
from typing import Any

import pyarrow as pa

from nearcast import _arrow
from nearcast.columns import datetime_of
from nearcast.geo.space import Space
from nearcast.model import Message
from nearcast.tables.cells import TableRows
from nearcast.tables.messages import read_messages
from nearcast.tables.rejected_rows import Rejected
from nearcast.text import Analyzer
from nearcast.text.words import WordTable


def message_values(table: pa.Table, space: Space) -> list[Message]:
    """Return the messages of a table, all of whose rows can be published; ids keep their types."""
    rejected = Rejected()
    bare = table.drop_columns([name for name in ("text", "terms") if name in table.column_names])
    bare = bare.append_column("text", pa.nulls(len(table), pa.string()))  # words are not looked at
    columns = read_messages(bare, space, WordTable(), Analyzer(), rejected=rejected)
    assert not len(rejected), next(iter(rejected)).reason
    ids = columns.ids.to_pylist() if isinstance(columns.ids, pa.Array) else columns.ids
    rows = TableRows(table, "messages", 0)
    texts = rows.texts("text").to_pylist() if rows.has("text") else [None] * len(table)
    terms = _lists(rows) if rows.has("terms") else [None] * len(table)
    attributes = [{}] * len(table) if columns.attributes is None else _arrow.rows_of(columns.attributes)
    return [
        Message(
            id_,
            texts[at],
            _place(columns.box[at].tolist()),
            terms=terms[at],
            time=datetime_of(int(columns.time[at])),
            expires=datetime_of(int(columns.expires[at])),
            attributes=_attributes(attributes[at]),
        )
        for at, id_ in enumerate(ids)
    ]


def _lists(rows: TableRows) -> list[tuple[str, ...] | None]:
    start, words = rows.lists("terms")
    return [tuple(words[first:last].to_pylist()) or None for first, last in pairwise(start.tolist())]


def _place(box: list[float]) -> Any:
    return tuple(box[:2]) if box[:2] == box[2:] else tuple(box)


def _attributes(row: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("attributes."): value for name, value in row.items() if value is not None}
