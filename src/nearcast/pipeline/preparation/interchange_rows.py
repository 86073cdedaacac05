"""Raw rows of any format → the interchange columns with their types, good rows only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.columns import NO_TIME
from nearcast.tables.cells import TableRows, is_list, is_text, without_nulls
from nearcast.tables.names import (
    EARTH_PLACE,
    GEOMETRY_COLUMN,
    NUMBER_NAMES,
    PLANE_PLACE,
    ROW_COLUMN,
    TEXT_NAMES,
    TIME_NAMES,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nearcast.columns import Messages
    from nearcast.geo import Space

#: Columns that only subscriptions have.
_OF_SUBSCRIPTIONS = ("query", "kind", "threshold", "k", "text_weight", "radius", "radius_m", "region", "west", "x_min")


def is_subscriptions(columns: list[str]) -> bool:
    """Tell whether these are the columns of subscriptions; else they are those of messages."""
    return any(name in columns for name in _OF_SUBSCRIPTIONS)


def message_rows(table: pa.Table, messages: Messages, good: NDArray[np.bool_], space: Space) -> pa.Table:
    """Return the rows of messages that could be read, in interchange columns; `messages` is what was read of them."""
    rows = TableRows(table.filter(pa.array(good)), "messages", 0)
    columns: dict[str, Any] = {"id": messages.ids}
    for name in ("text", "terms"):
        if rows.has(name):
            columns[name] = _typed(rows, name)
    names = EARTH_PLACE if space.is_earth else PLANE_PLACE
    is_point = bool((messages.box[:, :2] == messages.box[:, 2:]).all())
    for at, name in enumerate(names[:2] if is_point else names):
        columns[name] = _arrow.numbers(np.ascontiguousarray(messages.box[:, at]))
    for name, values in (("time", messages.time), ("expires", messages.expires)):
        if (values != NO_TIME).any():
            columns[name] = _arrow.times(values, values != NO_TIME)
    known = {*columns, *names, *TIME_NAMES, ROW_COLUMN, GEOMETRY_COLUMN}
    for name in table.column_names:
        if name not in known:
            columns[name] = _typed(rows, name)
    return pa.table(columns)


def subscription_rows(table: pa.Table, ids: pa.Array, good: NDArray[np.bool_]) -> pa.Table:
    """Return the rows of subscriptions that could be read, in interchange columns."""
    rows = TableRows(table.filter(pa.array(good)), "subscriptions", 0)
    columns: dict[str, Any] = {"id": ids}
    for name in rows.table.column_names:
        if name not in ("id", ROW_COLUMN, GEOMETRY_COLUMN):
            columns[name] = _typed(rows, name)
    if rows.has(GEOMETRY_COLUMN):
        columns["region"] = _regions(rows, columns.get("region"))
    return pa.table(columns)


def _typed(rows: TableRows, name: str) -> Any:
    """Return a column with the type that its name asks for; others as they are, nested ones as JSON text."""
    if name in NUMBER_NAMES:
        values, given = rows.numbers_of(name)
        column = pa.array(values, mask=~given)
        return column.cast(pa.int64()) if name == "k" else column
    if name in TIME_NAMES:
        times = rows.times(name)
        return _arrow.times(times, times != NO_TIME)
    if name == "terms":
        start, words = rows.lists(name)
        given = np.diff(start) > 0
        lists = pa.ListArray.from_arrays(pa.array(start, pa.int32()), words.combine_chunks().cast(pa.string()))
        return pa.array(lists.to_pylist(), pa.list_(pa.string())) if not given.all() else lists
    column = rows.column(name)
    if name in TEXT_NAMES or is_text(column.type):
        return column.cast(pa.string())
    if pa.types.is_struct(column.type) or is_list(column.type):
        texts = [None if each is None else json.dumps(without_nulls(each)) for each in column.to_pylist()]
        return pa.array(texts, pa.string())
    return column


def _regions(rows: TableRows, given: Any) -> pa.Array:
    """Return the geometries of Features as the column `region`, where a row gives none itself."""
    other = [None] * len(rows) if given is None else pa.chunked_array([given]).to_pylist()
    geometries = rows.column(GEOMETRY_COLUMN).to_pylist()
    return pa.array([a if a is not None else b for a, b in zip(geometries, other, strict=True)], pa.string())
