"""From Python values (messages, subscriptions, dicts, GeoJSON) to tables in the interchange columns."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.errors import InvalidInput, InvalidMessage, InvalidSubscription
from nearcast.geo.shapes import Box, Circle, shorten
from nearcast.geo.space import Space
from nearcast.model.dicts import TWO_IDS, has_two_ids
from nearcast.tables.column_names import check_message_names
from nearcast.tables.messages import MESSAGE_FIELDS
from nearcast.tables.names import (
    EARTH_BOX,
    EARTH_CIRCLE,
    EARTH_NAMES,
    EARTH_PLACE,
    PLANE_BOX,
    PLANE_CIRCLE,
    PLANE_NAMES,
    PLANE_PLACE,
    ROW_COLUMN,
)
from nearcast.tables.rejected_rows import Rejected, one_line

_TIME = pa.timestamp("us", "UTC")
_TEXT = pa.string()
#: Lists and structs in each other that Arrow still writes: it stops at 64.
_DEEPEST = 50
_SUBSCRIPTION_TYPES = {
    "id": None,
    "kind": _TEXT,
    "query": _TEXT,
    "region": _TEXT,
    "terms": pa.list_(_TEXT),
    "similarity": _TEXT,
    "k": pa.int64(),
    "expires": _TIME,
}


def messages_table(
    values: Iterable[Any],
    space: Space,
    *,
    source: str = "messages",
    first_row: int = 0,
    strict: bool = False,
    rejected: Rejected,
) -> pa.Table:
    """Return the table of the values that `message_from` takes; the others are added to `rejected`.

    For `read_messages`, which gives the rows the numbers they had among the values. All ids are of the type of the
    first. An attribute with the name of a column of its own is called `attributes.NAME`; values that Arrow cannot
    hold in one column become JSON text.
    """
    from nearcast.model import message_from

    place, foreign = (EARTH_PLACE, PLANE_PLACE) if space.is_earth else (PLANE_PLACE, EARTH_PLACE)
    found, numbers = _made(values, message_from, foreign, space, source, first_row, rejected, InvalidMessage)
    boxes = np.array([message.box for message in found], np.float64).reshape(-1, 4)
    columns = {"id": _id_array([message.id for message in found])}
    columns["text"] = pa.array([message.text for message in found], _TEXT)
    columns["terms"] = pa.array([message.terms for message in found], pa.list_(_TEXT))
    columns.update(zip(place, (pa.array(column) for column in np.ascontiguousarray(boxes.T)), strict=True))
    columns["time"] = pa.array([message.time for message in found], _TIME)
    columns["expires"] = pa.array([message.expires for message in found], _TIME)
    attributes = list(dict.fromkeys(name for message in found for name in message.attributes))
    given = [name for name in MESSAGE_FIELDS if any(getattr(each, name, None) is not None for each in found)]
    check_message_names(attributes, space, source, rejected, strict=strict, given=given)
    reserved = {*MESSAGE_FIELDS, *EARTH_PLACE, *PLANE_PLACE}
    for name in attributes:
        column = f"attributes.{name}" if name in reserved else str(name)
        columns[column] = attribute_array([message.attributes.get(name) for message in found])
    return pa.table({**columns, ROW_COLUMN: pa.array(numbers, pa.int64())})


def subscriptions_table(
    values: Iterable[Any], space: Space, *, source: str = "subscriptions", first_row: int = 0, rejected: Rejected
) -> pa.Table:
    """Return the table of the values that `subscription_from` takes; the others are added to `rejected`.

    For `read_subscriptions`, which gives the rows the numbers they had among the values. All ids are of the type of
    the first.
    """
    from nearcast.model import subscription_from

    foreign = PLANE_NAMES if space.is_earth else EARTH_NAMES
    found, numbers = _made(values, subscription_from, foreign, space, source, first_row, rejected, InvalidSubscription)
    rows = [_subscription_row(value, space) for value in found]
    columns: dict[str, pa.Array] = {"id": _id_array([row["id"] for row in rows])}
    for name in dict.fromkeys(name for row in rows for name in row):
        if name != "id":
            kind = _SUBSCRIPTION_TYPES.get(name, pa.float64())
            columns[name] = pa.array([row.get(name) for row in rows], kind)
    return pa.table({**columns, ROW_COLUMN: pa.array(numbers, pa.int64())})


def _made(
    values: Iterable[Any],
    make: Callable[[Any, Space], Any],
    foreign: tuple[str, ...],
    space: Space,
    source: str,
    first_row: int,
    rejected: Rejected,
    error: type[InvalidInput],
) -> tuple[list[Any], list[int]]:
    """Return the messages or subscriptions made of values, and the number of each; the other values are rejected."""
    found: list[Any] = []
    numbers: list[int] = []
    for number, value in enumerate(values, first_row):
        try:
            if isinstance(value, Mapping):
                _refuse_foreign(value, foreign, space, error)
            made = make(value, space)
            if has_two_ids(value):
                rejected.warn(f"{source}: {TWO_IDS}")
            if found and type(made.id) is not type(found[0].id):
                expected = "text" if isinstance(found[0].id, str) else "an integer"
                raise error(f"id is {shorten(made.id)}; expected {expected}, like the first id", field="id")
        except InvalidInput as reason:
            rejected.add(source, number, _id_of(value), reason.field, one_line(reason))
        else:
            found.append(made)
            numbers.append(number)
    return found, numbers


def _refuse_foreign(
    value: Mapping[str, Any], foreign: tuple[str, ...], space: Space, error: type[InvalidInput]
) -> None:
    for name in foreign:
        if value.get(name) is not None:
            raise error(f"{name} is given, which does not belong to the {space.kind}; use its own names", field=name)


def _id_of(value: Any) -> str | int | None:
    """Return the id of a value that could not be read, if it has one to name it by."""
    try:
        found = value.get("id") if isinstance(value, Mapping) else getattr(value, "id", None)
    except Exception:  # noqa: BLE001  an object of the user's may raise anything
        return None
    return found if isinstance(found, str | int) else None


def _id_array(ids: list[Any]) -> pa.Array:
    return pa.array(ids, pa.int64() if ids and isinstance(ids[0], int) else _TEXT)


def attribute_array(values: list[Any]) -> pa.Array:
    """Return the values as one column, as JSON text where they have no type in common or are nested too deep."""
    try:
        found = pa.array(values)
        if _depth(found.type) <= _DEEPEST:
            return found
    except Exception:  # noqa: BLE001  objects of the user's are asked for their contents
        pass
    return pa.array([None if value is None else _json(value) for value in values], _TEXT)


def _depth(kind: pa.DataType) -> int:
    """Return how many lists and structs stand in each other."""
    return 1 + max((_depth(kind.field(at).type) for at in range(kind.num_fields)), default=-1)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, default=str)
    except Exception:  # noqa: BLE001  as above
        return json.dumps(shorten(value))


def _subscription_row(value: Any, space: Space) -> dict[str, Any]:
    names = ("id", "kind", "query", "terms", "text_weight", "threshold", "similarity", "k", "expires")
    row = {name: found for name in names if (found := getattr(value, name, None)) is not None}
    if value.min_move is not None:
        row["min_move_m" if space.is_earth else "min_move"] = value.min_move
    if value.kind == "within":
        row.update(_region_columns(value.region, space))
        return row
    row.update(zip(EARTH_CIRCLE if space.is_earth else PLANE_CIRCLE, value.place, strict=False))
    if value.max_distance is not None:
        row["max_distance_m" if space.is_earth else "max_distance"] = value.max_distance
    return row


def _region_columns(region: Any, space: Space) -> dict[str, Any]:
    if region is None:
        return {}
    if isinstance(region, Box):
        corners = (region.x_min, region.y_min, region.x_max, region.y_max)
        return dict(zip(EARTH_BOX if space.is_earth else PLANE_BOX, corners, strict=True))
    if isinstance(region, Circle):
        numbers = (region.x, region.y, region.radius)
        return dict(zip(EARTH_CIRCLE if space.is_earth else PLANE_CIRCLE, numbers, strict=True))
    return {"region": json.dumps(region.to_geojson())}
