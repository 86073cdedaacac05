"""Calls of a hub as inputs, and inputs applied to a hub as the calls they are.

What can be checked without knowing the state is checked when an input is made: what raises here is never logged, and
values that cannot be read are rejected here. All else is decided when the input is applied, and decided alike whenever
it is applied to the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa

from nearcast import _arrow
from nearcast._ids import Id, ids_column, kinds_of, listed_ids
from nearcast.durable.inputs import Input
from nearcast.engine.moves import point_of, shape_of_place
from nearcast.geo import Space
from nearcast.hub import Hub
from nearcast.model import Message, Subscription, checked_time, message_from, subscription_from
from nearcast.tables import Rejected, messages_table, subscriptions_table
from nearcast.tables.inputs import table_or_values
from nearcast.tables.moves import moves_table, region_text
from nearcast.tables.names import EARTH_PLACE, PLANE_PLACE, ROW_COLUMN
from nearcast.tables.takeable import with_takeable_columns
from nearcast.text import Vocabulary

_TIME = pa.timestamp("us", "UTC")

# Calls as inputs


def publish(message: Any, space: Space) -> Input:
    """Return the input of `Hub.publish`."""
    value = message if isinstance(message, Message) else message_from(message, space)
    value.check(space)
    return Input("publish", messages_table([value], space, rejected=Rejected()), arguments=(value,))


def publish_many(messages: Any, space: Space, source: str, rejected: Rejected, *, is_strict: bool) -> Input:
    """Return the input of `Hub.publish_many`; values that are no message are added to `rejected`."""
    table = table_or_values(messages, space)
    if not isinstance(table, pa.Table):
        table = messages_table(table, space, rejected=rejected, source=source, strict=is_strict)
    return Input("publish_many", with_takeable_columns(table), is_strict, len(rejected))


def subscribe(value: Subscription, space: Space) -> Input:
    """Return the input of `Hub.subscribe`, given a checked value."""
    return Input("subscribe", subscriptions_table([value], space, rejected=Rejected()), arguments=(value,))


def subscribe_many(subscriptions: Any, space: Space, source: str, rejected: Rejected, *, is_strict: bool) -> Input:
    """Return the input of `Hub.subscribe_many`; values that are no subscription are added to `rejected`."""
    table = table_or_values(subscriptions, space)
    if not isinstance(table, pa.Table):
        table = subscriptions_table(table, space, rejected=rejected, source=source)
    return Input("subscribe_many", with_takeable_columns(table), is_strict, len(rejected))


def unsubscribe(subscription_id: Id) -> Input:
    """Return the input of `Hub.unsubscribe`."""
    return Input("unsubscribe", pa.table({"id": _arrow.one_id(subscription_id)}), arguments=(subscription_id,))


def unsubscribe_many(ids: Any) -> Input:
    """Return the input of `Hub.unsubscribe_many`; values that can be no id are nulls in it."""
    listed = listed_ids(ids)
    values = dict(listed.bad) | {
        place: value for column, places in listed.good for place, value in zip(places, column.to_pylist(), strict=True)
    }
    given = [values[place] for place in range(len(values))]
    bad = {place for place, _ in listed.bad}
    logged = [None if place in bad else value for place, value in enumerate(given)]
    return Input("unsubscribe_many", pa.table({"id": ids_column(logged, kinds_of(logged))}), arguments=(given,))


def move(subscription_id: Id, place: Any, time: datetime | str | None, space: Space) -> Input:
    """Return the input of `Hub.move`."""
    moment, point = checked_time(time, "time"), point_of(place)
    columns = {"id": _arrow.one_id(subscription_id), "time": pa.array([moment], _TIME)}
    if point is None:
        columns["region"] = pa.array([region_text(shape_of_place(place, space), space)])
    else:
        names = EARTH_PLACE if space.is_earth else PLANE_PLACE
        columns |= {name: pa.array([value], pa.float64()) for name, value in zip(names, point, strict=False)}
    return Input("move", pa.table(columns), arguments=(subscription_id, place, moment))


def move_many(moves: Any, space: Space, source: str, rejected: Rejected, *, is_strict: bool) -> Input:
    """Return the input of `Hub.move_many`; values that are no move are added to `rejected`."""
    table = table_or_values(moves, space)
    if not isinstance(table, pa.Table):
        table = moves_table(table, space, rejected=rejected, source=source)
    return Input("move_many", with_takeable_columns(table), is_strict, len(rejected))


def advance(time: datetime | str) -> Input:
    """Return the input of `Hub.advance`."""
    moment = checked_time(time, "time")
    if moment is None:
        raise ValueError("time is None; expected an aware datetime or RFC 3339 text")
    return Input("advance", pa.table({"time": pa.array([moment], _TIME)}), arguments=(moment,))


def beat() -> Input:
    """Return the input of `DurableHub.beat`; the time of its receipt is all it has."""
    return Input("beat", pa.table({"time": pa.array([None], _TIME)}))


def use_vocabulary(vocabulary: Vocabulary) -> Input:
    """Return the input of `Hub.use_vocabulary`: the vocabulary as it is now."""
    taken = vocabulary.snapshot()
    return Input("use_vocabulary", taken.to_table(), arguments=(taken,))


# Inputs as calls


def apply(hub: Hub, given: Input, *, source: str = "") -> Any:
    """Apply an input to a hub and return what the method of that name returns.

    The methods are those of `Hub`, whatever a subclass makes of them. `source` names the table in rejected rows.
    """
    found = _called(hub, given, source)
    hub.count_refused(given.n_refused)
    return found


def _called(hub: Hub, given: Input, source: str) -> Any:
    method = getattr(Hub, given.call)
    if given.call in _ARGUMENTS:
        arguments = given.arguments or _ARGUMENTS[given.call](given.table, hub.space)
        return method(hub, *arguments)
    options: dict[str, Any] = {"strict": given.is_strict}
    if source:
        options["source"] = source
    if given.threads is not None:
        options["threads"] = given.threads
    return method(hub, given.table, **options)


def _row(table: pa.Table) -> dict[str, Any]:
    """Return the one row of a table, without nulls and without its number."""
    (row,) = _arrow.rows_of(table)
    return {name: value for name, value in row.items() if value is not None and name != ROW_COLUMN}


def _message(table: pa.Table, space: Space) -> tuple[Message]:
    row = _row(table)
    places = EARTH_PLACE if space.is_earth else PLANE_PLACE
    place = tuple(row[name] for name in places)
    given = {name: row[name] for name in ("id", "text", "terms", "time", "expires") if name in row}
    others = {name: value for name, value in row.items() if name not in given and name not in places}
    attributes = {name.removeprefix("attributes."): value for name, value in others.items()}
    return (Message(place=place, attributes=attributes, **given),)


def _subscription(table: pa.Table, space: Space) -> tuple[Subscription]:
    return (subscription_from(_row(table), space),)


def _move(table: pa.Table, space: Space) -> tuple[Any, ...]:
    row = _row(table)
    x, y = (EARTH_PLACE if space.is_earth else PLANE_PLACE)[:2]
    return row["id"], row["region"] if "region" in row else (row[x], row[y]), row.get("time")


#: How the arguments of calls are read from their tables; the other calls take the table as it is.
_ARGUMENTS: dict[str, Callable[[pa.Table, Space], tuple[Any, ...]]] = {
    "advance": lambda table, _: (table["time"][0].as_py(),),
    "move": _move,
    "publish": _message,
    "subscribe": _subscription,
    "unsubscribe": lambda table, _: (table["id"][0].as_py(),),
    "unsubscribe_many": lambda table, _: (table,),
    "use_vocabulary": lambda table, _: (Vocabulary.from_table(table),),
}
