"""Features of points as a table in one pass: the way of large batches, and of single messages that wait together.

What is anything else (a rectangle, an id among the properties, ids of both types) is left to `messages_table`, value by
value. Both lead to the same messages; ranges of numbers and times are checked when the table is read.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pyarrow as pa

from nearcast.tables.messages import MESSAGE_FIELDS
from nearcast.tables.names import EARTH_PLACE, PLANE_PLACE
from nearcast.tables.values import attribute_array

#: Batches below this size gain nothing.
_FEWEST = 32
_TEXTS = ("text", "time", "expires")
_RESERVED = {*MESSAGE_FIELDS, *EARTH_PLACE, *PLANE_PLACE, "place", "attributes"} - {*_TEXTS, "terms"}
#: Properties with rules of their own, which a single message is checked against value by value.
_RULED = {*_RESERVED, "terms", "time", "expires"}
INT64 = range(-(1 << 63), 1 << 63)
_FLAT = (str, float, bool, int)


class PointGeometry(msgspec.Struct, forbid_unknown_fields=True):
    """A GeoJSON Point of two coordinates."""

    type: Literal["Point"]
    coordinates: tuple[float, float]


class PointFeature(msgspec.Struct, forbid_unknown_fields=True):
    """A GeoJSON Feature of a Point."""

    type: Literal["Feature"]
    id: str | int
    geometry: PointGeometry
    properties: dict[str, Any]


class PointCollection(msgspec.Struct, forbid_unknown_fields=True):
    """A FeatureCollection of Points."""

    type: Literal["FeatureCollection"]
    features: list[PointFeature]


_features = msgspec.json.Decoder(PointFeature)
_collection = msgspec.json.Decoder(PointCollection)


def table_of_features(body: bytes, *, is_lines: bool, is_earth: bool) -> pa.Table | None:
    """Return the messages of a body as a table, None if it is not plain Features of Points, or too few."""
    if not is_earth or body.count(b'"Feature"') < _FEWEST:
        return None
    try:
        found = _features.decode_lines(body) if is_lines else _collection.decode(body).features
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return table_of_points(found)


def plain_point(body: bytes, text_chars: int) -> PointFeature | None:
    """Return the one message of a body, if nothing of it can be refused: a Point, a text, and flat attributes."""
    try:
        found = _features.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    (x, y), id_, properties = found.geometry.coordinates, found.id, found.properties
    is_placed = -180.0 <= x <= 180.0 and -90.0 <= y <= 90.0
    is_named = "\0" not in id_ if isinstance(id_, str) else id_ in INT64
    text = properties.get("text", "")
    is_text = type(text) is str and len(text) <= text_chars
    if not (is_placed and is_named and is_text and _RULED.isdisjoint(properties)):
        return None
    return found if all(type(each) in _FLAT for each in properties.values()) else None


def table_of_points(features: list[PointFeature]) -> pa.Table | None:
    """Return Features as a table, None if some are not plain or their ids are of both types."""
    ids = [feature.id for feature in features]
    if len({type(each) for each in ids}) != 1:
        return None
    properties = [feature.properties for feature in features]
    names = dict.fromkeys(name for each in properties for name in each)
    if not _RESERVED.isdisjoint(names):
        return None
    columns: dict[str, pa.Array] = {}
    try:
        columns["id"] = pa.array(ids)
        columns["text"] = pa.array([each.get("text") for each in properties], pa.string())
        for at, name in enumerate(EARTH_PLACE[:2]):
            columns[name] = pa.array([feature.geometry.coordinates[at] for feature in features], pa.float64())
        for name in names:
            if name in ("time", "expires"):
                columns[name] = pa.array([each.get(name) for each in properties], pa.string())
            elif name == "terms":
                columns[name] = pa.array([each.get(name) for each in properties], pa.list_(pa.string()))
            elif name != "text":
                columns[name] = attribute_array([each.get(name) for each in properties])
    except (pa.ArrowException, OverflowError, TypeError):  # a value of another type: its row is rejected the other way
        return None
    return pa.table(columns)
