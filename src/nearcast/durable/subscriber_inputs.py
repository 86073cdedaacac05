"""Calls that name subscribers as inputs: a column `subscriber` of subscriptions, moves and erasures by subscriber."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearcast import _arrow
from nearcast.durable.inputs import Input
from nearcast.durable.outbox.subscribers import SUBSCRIBER
from nearcast.engine.moves import point_of, shape_of_place
from nearcast.errors import InvalidColumns, InvalidSubscription
from nearcast.geo import Space
from nearcast.geo.shapes import shorten
from nearcast.model import checked_time
from nearcast.nesting import is_encodable
from nearcast.tables import Rejected
from nearcast.tables.cells import is_text
from nearcast.tables.moves import region_text
from nearcast.tables.names import EARTH_PLACE, PLANE_PLACE, ROW_COLUMN

if TYPE_CHECKING:
    pass

_TIME = pa.timestamp("us", "UTC")
#: Characters of a subscriber's name.
_LONGEST_NAME = 512


def why_no_name(name: Any) -> str | None:
    """Return why this is no name of a subscriber, None if it is one."""
    is_good = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and "\0" not in name and is_encodable(name)
    expected = f"text of 1 to {_LONGEST_NAME} characters without a zero byte"
    return None if is_good else f"subscriber is {shorten(name)}; expected {expected}"


def checked_name(name: Any) -> str:
    """Return the name of a subscriber, or raise `InvalidSubscription`."""
    if (reason := why_no_name(name)) is not None:
        raise InvalidSubscription(reason, field=SUBSCRIBER)
    return str(name)


def with_subscriber(given: Input, name: str | None) -> Input:
    """Return the input of subscriptions, all of which have this subscriber."""
    if name is None:
        return given
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(given.table), np.int32)), pa.array([name]))
    names = given.table.column_names
    table = given.table.drop_columns([SUBSCRIBER]) if SUBSCRIBER in names else given.table
    return replace(given, table=table.append_column(SUBSCRIBER, column))


def without_names(values: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return subscriptions as values without `subscriber`, and the subscriber of each."""
    bare, names = [], []
    for value in values:
        name = value.get(SUBSCRIBER) if isinstance(value, Mapping) else None
        bare.append({key: each for key, each in value.items() if key != SUBSCRIBER} if name is not None else value)
        names.append(name)
    return bare, names


def with_names(given: Input, names: list[Any]) -> Input:
    """Return the input of subscriptions with the subscribers of the values that it was made of."""
    if not any(name is not None for name in names):
        return given
    numbers = given.table[ROW_COLUMN].to_pylist()
    own = [names[number] for number in numbers]
    texts = pa.array([name if isinstance(name, str) and is_encodable(name) else _no_text(name) for name in own])
    return replace(given, table=given.table.append_column(SUBSCRIBER, texts.cast(pa.string())))


def _no_text(name: Any) -> str | None:
    """Return what is refused as a name, None for none."""
    return None if name is None else ""


def with_checked_names(given: Input, source: str, rejected: Rejected) -> Input:
    """Return the input without the rows whose subscriber is no name, which are added to `rejected`."""
    table = given.table
    if SUBSCRIBER not in table.column_names:
        return given
    column = _arrow.plain(table[SUBSCRIBER])
    if not is_text(column.type) and not pa.types.is_null(column.type):
        raise InvalidColumns(f"{source}: column {SUBSCRIBER} is of type {column.type}; expected text", field=SUBSCRIBER)
    distinct = column.unique()
    bad = {name for name in distinct.to_pylist() if name is not None and why_no_name(name) is not None}
    if not bad:
        return given
    if ROW_COLUMN not in table.column_names:
        table = table.append_column(ROW_COLUMN, _arrow.numbers(np.arange(len(table))))
    names, numbers = column.to_pylist(), table[ROW_COLUMN].to_pylist()
    ids = table["id"].to_pylist() if "id" in table.column_names else [None] * len(table)
    kept = []
    for row, name in enumerate(names):
        if name in bad:
            rejected.add(source, numbers[row], ids[row], SUBSCRIBER, why_no_name(name) or "")
        else:
            kept.append(row)
    return replace(given, table=table.take(pa.array(kept, pa.int64())), n_refused=len(rejected))


def erase(name: str) -> Input:
    """Return the input that erases a subscriber."""
    return Input("erase", pa.table({SUBSCRIBER: pa.array([name])}))


def move_subscriber(name: str, place: Any, time: datetime | str | None, space: Space) -> Input:
    """Return the input that moves all subscriptions of a subscriber."""
    columns = {SUBSCRIBER: pa.array([name]), "time": pa.array([checked_time(time, "time")], _TIME)}
    point = point_of(place)
    if point is None:
        columns["region"] = pa.array([region_text(shape_of_place(place, space), space)])
    else:
        names = EARTH_PLACE if space.is_earth else PLANE_PLACE
        columns |= {name: pa.array([value], pa.float64()) for name, value in zip(names, point, strict=False)}
    return Input("move_subscriber", pa.table(columns))
