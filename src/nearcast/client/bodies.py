"""Bodies of requests: subscriptions, places and messages as people give them → JSON and Arrow as the server reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from nearcast.engine.moves import point_of, shape_of_place
from nearcast.errors import InvalidInput
from nearcast.geo import Space, shape_from
from nearcast.geo.shapes import finite_number, shorten
from nearcast.json_forms import message_feature, region_json, rfc_3339, subscription_json
from nearcast.model import Message, Similar, TopK, Within
from nearcast.tables.moves import region_text


def given_values(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def subscription_body(given: Any, space: Space) -> dict[str, Any]:
    """Return a subscription as an object of JSON."""
    if isinstance(given, (Within, Similar, TopK)):
        return subscription_json(given, space)
    if isinstance(given, dict):
        return with_region_text(given, space)
    raise InvalidInput(f"subscription is {shorten(given)}; expected a dict, Within, Similar or TopK")


def move_body(given: Any, space: Space) -> dict[str, Any]:
    """Return a move as an object of JSON."""
    if isinstance(given, dict):
        return with_region_text(given, space)
    raise InvalidInput(f"a move is {shorten(given)}; expected a dict with id or subscriber, a place and maybe time")


def with_region_text(given: dict[str, Any], space: Space) -> dict[str, Any]:
    """Return a dict whose `region`, where it is an object such as a shape, is the JSON that the server reads."""
    region = given.get("region")
    if region is None or isinstance(region, (str, dict, list)):
        return dict(given)
    return {**given, "region": region_text(shape_from(region, space), space)}


def with_own(body: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return a subscription with what the server keeps beside it; of a Feature these are properties."""
    if body.get("type") != "Feature":
        return {**body, **own}
    properties = body.get("properties") or {}
    if not isinstance(properties, dict):
        raise InvalidInput(f"properties is {shorten(properties)}; expected a dict", field="properties")
    return {**body, "properties": {**properties, **own}}


def place_body(place: Any, space: Space) -> dict[str, Any]:
    """Return a point or a region, as `Hub.move` takes them, in its columns."""
    point = point_body(place, space)
    return region_json(shape_of_place(place, space), space) if point is None else point


def point_body(place: Any, space: Space) -> dict[str, Any] | None:
    """Return a point in its columns, None if the place is none."""
    point, names = point_of(place), ("lon", "lat") if space.is_earth else ("x", "y")
    if point is None:
        return None
    return {name: finite_number(value, name) for name, value in zip(names, point, strict=True)}


def message_body(given: Any) -> dict[str, Any]:
    """Return a message as an object of JSON."""
    if isinstance(given, Message):
        return message_feature(given)
    if isinstance(given, dict):
        return given
    found = getattr(given, "__geo_interface__", None)
    if isinstance(found, Mapping):
        return dict(found)
    raise InvalidInput(f"message is {shorten(given)}; expected a dict, a Feature or a Message")


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON; `InvalidInput` names the field that cannot be sent."""
    try:
        return _encoded(value)
    except (TypeError, ValueError, RecursionError) as error:
        field = _unsendable(value)
        which = "it" if field is None else f"{field} is {shorten(value[field])}, which"
        raise InvalidInput(f"{which} cannot be sent as JSON: {error}", field=field) from None


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain).encode()


def _unsendable(value: Any) -> str | None:
    """Return the name of the first value of a dict that JSON has not."""
    for name, each in value.items() if isinstance(value, dict) else ():
        try:
            _encoded(each)
        except (TypeError, ValueError, RecursionError):
            return name if isinstance(name, str) else None
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return rfc_3339(value)
    if hasattr(value, "item"):  # a number of NumPy
        return value.item()
    raise TypeError(f"{shorten(value)} is no value of JSON")


def arrow_bytes(table: pa.Table) -> bytes:
    """Return a table as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
