"""The place of a message or a scored subscription: a point or a rectangle, however it is written."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nearcast.errors import InvalidInput
from nearcast.geo.shapes import Box, as_float, is_number, shorten
from nearcast.geo.space import Space

Place = tuple[float, ...]

_EARTH = Space.earth()
_FORMS = "expected (x, y), (x_min, y_min, x_max, y_max), a Box, or a GeoJSON Point or rectangle"


def place_from(value: Any, error: type[InvalidInput], space: Space = _EARTH) -> Any:
    """Return (x, y) or (x_min, y_min, x_max, y_max) as floats; raise `error` for what is no place.

    GeoJSON positions are on the earth, and are checked to be, unless another space is given; those of objects with
    `__geo_interface__` are in the space of whoever takes the place.
    """
    if type(value) is not tuple:  # the common case is spared the questions
        if isinstance(value, Box):
            return (value.x_min, value.y_min, value.x_max, value.y_max)
        if not isinstance(value, Mapping) and hasattr(value, "__geo_interface__"):
            return _from_geometry(value.__geo_interface__, error, space)
        if isinstance(value, Mapping):
            place = _from_geometry(value, error, space)
            check_place(place, space, error)
            return place
    return _from_numbers(value, error)


def _from_numbers(value: Any, error: type[InvalidInput]) -> Place:
    is_list = type(value) is tuple or (isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes))
    if not is_list or _size(value) not in (2, 4):
        raise error(f"place is {shorten(value)}; {_FORMS}", field="place")
    place = tuple([_coordinate(number, error) for number in value])
    if len(place) == 4 and place[1] > place[3]:
        raise error(f"place is {place}: y_min is above y_max; swap them", field="place")
    return place


def _size(value: Any) -> int:
    return value.size if isinstance(value, np.ndarray) else len(value)  # an array without dimensions has no length


def check_place(place: Place, space: Space, error: type[InvalidInput]) -> None:
    """Raise `error` unless the place fits the space."""
    if not space.is_earth:
        if len(place) == 4 and place[0] > place[2]:
            raise error(f"place is {place}: x_min is above x_max; swap them", field="place")
        return
    for lon, lat in (place[:2], place[2:]) if len(place) == 4 else (place,):
        if abs(lon) > 180.0:
            raise error(f"longitude {lon} is beyond 180; expected -180 to 180", field="lon")
        if abs(lat) > 90.0:
            raise error(f"latitude {lat} is beyond 90; expected -90 to 90", field="lat")


def _coordinate(value: Any, error: type[InvalidInput]) -> float:
    if not is_number(value):
        raise error(f"place holds {shorten(value)}; expected numbers", field="place")
    number = as_float(value)
    if not math.isfinite(number):
        raise error(f"place holds {shorten(value)}; expected finite numbers", field="place")
    return number


def _from_geometry(geometry: Mapping[str, Any], error: type[InvalidInput], space: Space) -> Any:
    kind, coordinates = geometry.get("type"), geometry.get("coordinates")
    if kind is None:
        raise error(f"place is {shorten(geometry)}; {_FORMS}", field="place")
    if kind == "Feature":
        return place_of_feature(geometry, error, space)
    try:
        if kind == "Point":
            return place_from(tuple(coordinates[:2]), error)  # type: ignore[index]
        if kind == "Polygon":
            (ring,) = coordinates  # type: ignore[misc]
            x_min, y_min, x_max, y_max = _rectangle([place_from(tuple(each[:2]), error) for each in ring], error)
            # Only on the earth is there a short way around it.
            is_around = x_min > x_max and not space.is_earth
            return (x_max, y_min, x_min, y_max) if is_around else (x_min, y_min, x_max, y_max)
    except (TypeError, ValueError, KeyError) as reason:
        if isinstance(reason, InvalidInput):
            raise
        kind = f"{kind} that cannot be read"
    raise error(f"place is a GeoJSON {kind}; expected a Point, or a Polygon that is a rectangle", field="place")


def place_of_feature(feature: Mapping[str, Any], error: type[InvalidInput], space: Space = _EARTH) -> Any:
    """Return the place of a GeoJSON Feature: its geometry or, lacking that, its bbox (four numbers, or six in 3-D)."""
    if feature.get("geometry") is not None:
        return place_from(feature["geometry"], error, space)
    bbox = feature.get("bbox")
    if not isinstance(bbox, Sequence) or len(bbox) not in (4, 6):
        raise error("the Feature has neither a geometry nor a bbox; expected a Point or a rectangle", field="place")
    place = place_from((*bbox[:2], *bbox[len(bbox) // 2 :][:2]), error)
    check_place(place, space, error)
    return place


def _rectangle(ring: list[Place], error: type[InvalidInput]) -> Place:
    """Return the rectangle whose corners a closed ring visits, in either direction."""
    west, east = min(x for x, _ in ring), max(x for x, _ in ring)
    south, north = min(y for _, y in ring), max(y for _, y in ring)
    around = [(west, south), (east, south), (east, north), (west, north)]
    corners = ring[:-1] if len(ring) == 5 and ring[0] == ring[-1] else ring
    turns = [around[at:] + around[:at] for at in range(4)]
    if corners not in turns and corners[::-1] not in turns:
        raise error("the Polygon is not a rectangle along the axes; expected one, or a Point", field="place")
    # As for regions: a jump of more than 180° goes the short way, unless it is from one end of the map to the other.
    if 180.0 < east - west < 360.0:
        west, east = east, west
    return (west, south, east, north)
