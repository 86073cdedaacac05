"""Times of receipt in inputs: rows from the future are refused before they are logged, rows without a time get one.

The first is decided by the clock when an input comes, and never again. The second is done whenever an input is applied,
with the time of receipt that is logged beside it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast import _arrow
from nearcast.columns import NO_TIME, datetime_of, microseconds_of
from nearcast.durable.inputs import Input
from nearcast.errors import InvalidInput, InvalidMessage, InvalidSubscription
from nearcast.tables import Rejected
from nearcast.tables.cells import TableRows, is_id, plain
from nearcast.tables.names import CELLS, JSON_CELLS, ROW_COLUMN
from nearcast.tables.time_limits import MaxAhead

_TIME = pa.timestamp("us", "UTC")
_CLOCK = "the time of receipt"
#: Calls of one row, with the error that their time raises, and those of many rows.
_SINGLE = {
    "advance": InvalidInput,
    "move": InvalidSubscription,
    "move_subscriber": InvalidSubscription,
    "publish": InvalidMessage,
}
_MANY = ("publish_many", "move_many")


# Before an input is logged


def without_future(given: Input, limit: MaxAhead | None, now: int, source: str, rejected: Rejected) -> Input:
    """Return an input without rows whose time lies too far ahead of now, which are added to `rejected`.

    The one row of a single call raises instead.
    """
    if limit is None or "time" not in given.table.column_names:
        return given
    if given.call in _SINGLE:
        (time,) = TableRows(given.table, source, 0).times("time").tolist()
        if time > now + limit.length:
            raise _SINGLE[given.call](limit.why(time, now, _CLOCK), field="time")
    return _filtered(given, limit, now, source, rejected) if given.call in _MANY else given


def _filtered(given: Input, limit: MaxAhead, now: int, source: str, rejected: Rejected) -> Input:
    rows = TableRows(given.table, source, 0)
    times = rows.times("time")
    ahead = limit.ahead_of(times, now)
    if not ahead.any():
        return given
    for row in np.flatnonzero(ahead).tolist():
        id_ = given.table["id"][row].as_py() if rows.has("id") else None
        number, reason = int(rows.numbers[row]), limit.why(int(times[row]), now, _CLOCK)
        rejected.add(source, number, id_ if is_id(id_) else None, "time", reason)
    table = given.table
    if not rows.has(ROW_COLUMN):
        table = table.append_column(ROW_COLUMN, _arrow.numbers(rows.numbers))
    n_refused = given.n_refused + int(ahead.sum())
    return replace(given, table=table.filter(pa.array(~ahead)), n_refused=n_refused)


# When an input is applied


def stamped(given: Input, received: int | None) -> Input:
    """Return an input with the time of its receipt in rows that give none; as it is where none was logged."""
    if received is None:
        return given
    moment = datetime_of(received)
    assert moment is not None
    if given.call == "beat":
        return replace(given, call="advance", arguments=(moment,))
    if given.call not in (*_MANY, "move", "move_subscriber", "publish"):
        return given
    table = _with_times(given.table, moment)
    if table is given.table:
        return given
    return replace(given, table=table, arguments=_arguments(given, moment))


def _arguments(given: Input, moment: datetime) -> tuple[object, ...] | None:
    """Return the arguments of a single call that gave no time."""
    if given.arguments is None:
        return None
    if given.call == "publish":
        return (replace(given.arguments[0], time=moment),)
    return (*given.arguments[:2], moment)


def _with_times(table: pa.Table, moment: datetime) -> pa.Table:
    """Return a table with a time in each row that has none; times that cannot be read stay as they are."""
    if "time" not in table.column_names:
        column = _arrow.numbers(np.full(table.num_rows, microseconds_of(moment))).cast(_TIME)
        return table.append_column("time", column)
    rows = TableRows(table, "", 0)
    times = rows.times("time")
    missing = (times == NO_TIME) & ~rows.faults.is_bad
    if not missing.any():
        return table
    at, field = table.column_names.index("time"), table.schema.field("time")
    if not rows.faults.is_bad.any():
        filled = np.where(missing, microseconds_of(moment), times)
        return table.set_column(at, pa.field("time", _TIME), _arrow.numbers(filled).cast(_TIME))
    column = plain(table["time"])
    value = pa.scalar(_written(moment, field) if not pa.types.is_temporal(column.type) else moment)
    filled = pc.if_else(pa.array(missing), value.cast(column.type), column)
    return table.set_column(at, field.with_type(column.type), filled)


def _written(moment: datetime, field: pa.Field) -> str:
    """Return a time as the cells of an untyped column are written."""
    text = moment.isoformat()
    return json.dumps(text) if (field.metadata or {}).get(CELLS) == JSON_CELLS else text
