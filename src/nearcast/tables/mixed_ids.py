"""A table of subscriptions with ids of both types, as `Hub.to_table` writes it, in parts that have one type each."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from nearcast._ids import MIXED_IDS, ids_column, kinds_of
from nearcast.tables.names import ROW_COLUMN
from nearcast.tables.rejected_rows import Rejected


def parts_of_one_id_type(
    table: pa.Table, source: str, rejected: Rejected, *, may_repeat: bool = False
) -> Iterator[pa.Table]:
    """Yield the rows in order, each part with ids of one type; a table whose ids have one type is the one part.

    Of rows with the same id all but the first are added to `rejected`, unless ids `may_repeat`.
    """
    if "id" not in table.column_names or table.schema.field("id").type != MIXED_IDS:
        yield table
        return
    ids = table["id"].to_pylist()
    given = table[ROW_COLUMN].to_pylist() if ROW_COLUMN in table.column_names else range(len(ids))
    first: dict[tuple[type, Any], int] = {}
    for row, id_ in enumerate(() if may_repeat else ids):
        taken = first.setdefault((type(id_), id_), row)
        if taken != row and id_ is not None:
            reason = f"id {id_!r} is taken by row {given[taken]}; give each subscription its own"
            rejected.add(source, given[row], id_, "id", reason)
    rows = [row for row, id_ in enumerate(ids) if may_repeat or id_ is None or first[type(id_), id_] == row]
    at = table.column_names.index("id")
    for _, run in groupby(rows, key=lambda row: isinstance(ids[row], int)):
        here = list(run)
        own = [ids[row] for row in here]
        numbers = pa.array(here, pa.int64())
        part = table.take(numbers).set_column(at, "id", ids_column(own, kinds_of(own)))
        yield part if ROW_COLUMN in part.column_names else part.append_column(ROW_COLUMN, numbers)
