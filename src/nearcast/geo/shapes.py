"""The shapes people write: boxes, circles and polygons, from Python values, GeoJSON or other libraries' objects."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from nearcast.errors import InvalidRegion
from nearcast.geo.space import Space

_FORMS = (
    "expected Box, Circle, Area, GeoJSON (Polygon, MultiPolygon or a Feature of one), "
    '{"type": "Circle", "center": [x, y], "radius_m": r}, or [x_min, y_min, x_max, y_max]'
)

#: What the numbers of a box and a circle are called in each space; errors name them as their columns are called.
_EARTH_BOX, _PLANE_BOX = ("west", "south", "east", "north"), ("x_min", "y_min", "x_max", "y_max")
_EARTH_CIRCLE, _PLANE_CIRCLE = ("lon", "lat", "radius_m"), ("x", "y", "radius")


#: What shapely raises, beside errors of its own, for coordinates that are no rings of numbers.
_UNREADABLE = (ArithmeticError, ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Box:
    """A rectangle with sides along the axes, border inside; on the earth `x_min` > `x_max` crosses the dateline.

    >>> Box(13.0, 52.3, 13.8, 52.7)
    Box(x_min=13.0, y_min=52.3, x_max=13.8, y_max=52.7)
    >>> Box(170, -20, -170, -10).to_geojson()["type"]  # Fiji, on both sides of the dateline
    'MultiPolygon'
    """

    x_min: float
    y_min: float
    x_max: float
    y_max: float

    def __post_init__(self) -> None:
        values = [getattr(self, name) for name in _PLANE_BOX]
        for name, number in zip(_PLANE_BOX, _box_numbers(values, _PLANE_BOX), strict=True):
            object.__setattr__(self, name, number)

    def check(self, space: Space) -> None:
        """Raise `InvalidRegion` unless the box fits the space; on the earth its sides are called west, south, …."""
        if space.is_earth:
            check_position(self.x_min, self.y_min, _EARTH_BOX[:2])
            check_position(self.x_max, self.y_max, _EARTH_BOX[2:])
        elif self.x_min > self.x_max:
            raise InvalidRegion(f"x_min {self.x_min} is above x_max {self.x_max}; swap them", field="x_min")

    def to_geojson(self) -> dict[str, Any]:
        """Return the box as a GeoJSON Polygon, or a MultiPolygon of two where it crosses the dateline."""
        west, south, east, north = self.x_min, self.y_min, self.x_max, self.y_max
        if west <= east:
            return {"type": "Polygon", "coordinates": [_corners(west, south, east, north)]}
        halves = [[_corners(west, south, 180.0, north)], [_corners(-180.0, south, east, north)]]
        return {"type": "MultiPolygon", "coordinates": halves}


@dataclass(frozen=True)
class Circle:
    """All points within `radius` of (x, y), border inside; on the earth the radius is in metres.

    >>> Circle(13.4, 52.5, 800)
    Circle(x=13.4, y=52.5, radius=800.0)
    """

    x: float
    y: float
    radius: float

    def __post_init__(self) -> None:
        values = [getattr(self, name) for name in _PLANE_CIRCLE]
        for name, number in zip(_PLANE_CIRCLE, _circle_numbers(values, _PLANE_CIRCLE), strict=True):
            object.__setattr__(self, name, number)

    def check(self, space: Space) -> None:
        """Raise `InvalidRegion` unless the centre lies in the space."""
        if space.is_earth:
            check_position(self.x, self.y)

    def to_geojson(self, space: Space = Space.earth()) -> dict[str, Any]:  # noqa: B008  a frozen value
        """Return the circle as the GeoJSON-like object that `shape_from` reads; GeoJSON itself has none."""
        return {"type": "Circle", "center": [self.x, self.y], "radius_m" if space.is_earth else "radius": self.radius}


@dataclass(frozen=True, repr=False)
class Area:
    """A polygon, with holes or not, or several: made from shapely, GeoJSON, or anything with `__geo_interface__`.

    Edges are straight in x and y; rings may wind either way. `geometry` is the shapely geometry as written: it is
    cut at the dateline when a region is made of it.

    >>> Area({"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 3], [0, 0]]]})
    Area({"type":"Polygon","coordinates":[[[0.0,0.0],[4.0,0.0],[0.0,3.0],[0.0,0.0]]]})
    """

    geometry: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "geometry", _polygonal(self.geometry))

    def __repr__(self) -> str:
        import shapely

        text = shapely.to_geojson(self.geometry)
        return f"Area({text if len(text) <= 400 else text[:399] + '…'})"

    def check(self, space: Space | None) -> None:
        """Raise `InvalidRegion` unless the rings are valid and lie in the space; None: valid in some space."""
        import shapely

        from nearcast.geo.dateline import invalid_polygon

        if space is not None and space.is_earth:
            x_min, y_min, x_max, y_max = shapely.bounds(self.geometry).tolist()
            check_position(x_min, y_min)
            check_position(x_max, y_max)
        elif space is None and self._is_cut_valid():
            return
        geometry = self.cut() if space is not None and space.is_earth else self.geometry
        if not shapely.is_valid(geometry):
            raise InvalidRegion(invalid_polygon(geometry), field="region")

    def cut(self) -> Any:
        """Return the shapely geometry cut at the dateline, where one of its rings goes over it."""
        from nearcast.geo.dateline import cut_at_dateline

        return cut_at_dateline(self.geometry)

    def _is_cut_valid(self) -> bool:
        import shapely

        try:
            return bool(shapely.is_valid(self.cut()))
        except InvalidRegion:
            return False

    def to_geojson(self) -> dict[str, Any]:
        """Return the GeoJSON geometry as written."""
        import shapely

        return dict(json.loads(shapely.to_geojson(self.geometry)))


Shape = Box | Circle | Area


def shape_from(value: Any, space: Space | None = None) -> Shape:
    """Return the shape that `value` describes; raise `InvalidRegion` if there is none or it does not fit `space`.

    Takes a shape, GeoJSON as a dict or text (Polygon, MultiPolygon, or a Feature of one), the dict
    `{"type": "Circle", "center": [lon, lat], "radius_m": 800}` (`radius` on a plane), anything with
    `__geo_interface__`, or a list of four numbers (x_min, y_min, x_max, y_max). Without a space, what depends on it
    (latitudes up to 90, x_min ≤ x_max on a plane) is not checked.
    """
    shape = _read_shape(value, space)
    if isinstance(shape, Area) or space is not None:
        shape.check(space)  # type: ignore[arg-type]
    return shape


def _read_shape(value: Any, space: Space | None) -> Shape:
    if isinstance(value, Box | Circle | Area):
        return value
    if isinstance(value, str | bytes):
        value = _parsed_json(value)
    if not isinstance(value, Mapping) and hasattr(value, "__geo_interface__"):
        value = value.__geo_interface__
    if isinstance(value, Mapping):
        return _read_mapping(value, space)
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes) and len(value) == 4:
        return box_from(list(value), space)
    raise InvalidRegion(f"region is {shorten(value)}; {_FORMS}", field="region")


def _read_mapping(value: Mapping[str, Any], space: Space | None) -> Shape:
    kind = value.get("type")
    if kind == "Feature":
        geometry = value.get("geometry")
        if not isinstance(geometry, Mapping):
            raise InvalidRegion("the Feature has no geometry; expected a Polygon or MultiPolygon", field="region")
        return _read_mapping(geometry, space)
    if kind == "Circle":
        return _read_circle(value, space)
    return Area(value)


def _read_circle(value: Mapping[str, Any], space: Space | None) -> Circle:
    given = [name for name in ("radius_m", "radius") if value.get(name) is not None]
    allowed = ["radius_m", "radius"] if space is None else ["radius_m" if space.is_earth else "radius"]
    if len(given) != 1 or given[0] not in allowed:
        wanted = " or ".join(f'"{name}"' for name in allowed)
        raise InvalidRegion(f"the Circle gives {given or 'no radius'}; expected {wanted}", field="region")
    center = value.get("center")
    if not isinstance(center, Sequence) or isinstance(center, str) or len(center) != 2:
        raise InvalidRegion(f"the Circle's center is {shorten(center)}; expected [x, y]", field="region")
    return circle_from((center[0], center[1], value[given[0]]), space)


def box_from(values: Sequence[Any], space: Space | None) -> Box:
    """Return the box of four numbers; on the earth errors call them west, south, east and north."""
    return Box(*_box_numbers(values, _EARTH_BOX if space is not None and space.is_earth else _PLANE_BOX))


def circle_from(values: Sequence[Any], space: Space | None) -> Circle:
    """Return the circle of three numbers; on the earth errors call them lon, lat and radius_m."""
    return Circle(*_circle_numbers(values, _EARTH_CIRCLE if space is not None and space.is_earth else _PLANE_CIRCLE))


def _parsed_json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRegion(f"region {shorten(text)} is not JSON: {error}; {_FORMS}", field="region") from None


def _polygonal(value: Any) -> Any:
    """Return a two-dimensional shapely Polygon or MultiPolygon with finite coordinates."""
    import shapely
    from shapely.errors import ShapelyError
    from shapely.geometry import shape

    if isinstance(value, str | bytes):
        value = _parsed_json(value)
    if isinstance(value, Mapping) and value.get("type") == "Feature":
        value = value.get("geometry")
    geometry = value
    if not isinstance(value, shapely.Geometry):
        if isinstance(value, Mapping) and not {"type", "coordinates"} <= set(value):
            raise InvalidRegion(f"region {shorten(value)} lacks its type or its coordinates; {_FORMS}", field="region")
        try:
            with np.errstate(invalid="ignore"):  # NaN is reported below
                geometry = shape(value)
        except (*_UNREADABLE, ShapelyError) as error:
            raise InvalidRegion(
                f"region {shorten(value)} cannot be read: {_said(error)}; {_FORMS}", field="region"
            ) from None
    if geometry.geom_type not in ("Polygon", "MultiPolygon"):
        raise InvalidRegion(f"region is a {geometry.geom_type}; expected a Polygon or MultiPolygon", field="region")
    if geometry.is_empty:
        raise InvalidRegion("the polygon is empty; leave the region out for anywhere", field="region")
    if not np.isfinite(shapely.get_coordinates(geometry)).all():
        raise InvalidRegion("a coordinate of the polygon is not finite; expected numbers", field="region")
    return shapely.force_2d(geometry)


def _said(error: Exception) -> str:
    """Return what a person can use of an error from within shapely or Python."""
    is_clear = "linearring" in str(error) or "Unknown geometry type" in str(error)
    return str(error).rstrip(".") if is_clear else "its coordinates are not rings of [x, y] numbers"


def check_position(lon: float, lat: float, fields: Sequence[str] = ("lon", "lat")) -> None:
    """Raise `InvalidRegion` unless the position is on the earth; `fields` are what its two numbers are called."""
    if not abs(lon) <= 180.0:
        raise InvalidRegion(f"longitude {lon} is beyond 180; expected -180 to 180", field=fields[0])
    if not abs(lat) <= 90.0:
        raise InvalidRegion(f"latitude {lat} is beyond 90; expected -90 to 90", field=fields[1])


def _box_numbers(values: Sequence[Any], names: Sequence[str]) -> list[float]:
    """Return the sides of a box as floats; raise `InvalidRegion` where they are none."""
    numbers = [finite_number(value, name) for value, name in zip(values, names, strict=True)]
    if numbers[1] > numbers[3]:
        raise InvalidRegion(f"{names[1]} {numbers[1]} is above {names[3]} {numbers[3]}; swap them", field=names[1])
    return numbers


def _circle_numbers(values: Sequence[Any], names: Sequence[str]) -> list[float]:
    """Return centre and radius as floats; raise `InvalidRegion` where they are none."""
    numbers = [finite_number(value, name) for value, name in zip(values, names, strict=True)]
    if numbers[2] < 0:
        raise InvalidRegion(f"{names[2]} is {numbers[2]}; expected 0 or more", field=names[2])
    return numbers


def finite_number(value: Any, field: str) -> float:
    """Return `value` as a float; raise `InvalidRegion` for text, booleans, NaN and infinities."""
    if not is_number(value):
        raise InvalidRegion(f"{field} is {shorten(value)}; expected a number", field=field)
    number = as_float(value)
    if not math.isfinite(number):
        raise InvalidRegion(f"{field} is {shorten(value)}; expected a finite number", field=field)
    return number


def is_number(value: Any) -> bool:
    """Tell whether `value` is a real number, of Python, NumPy or `decimal`; booleans are not."""
    return type(value) is float or (isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_))


def as_float(value: Any) -> float:
    """Return a number as a float: infinity where it is too large for one, NaN for a NaN of any kind."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:  # a signalling NaN
        return math.nan


def shorten(value: Any, limit: int = 80) -> str:
    """Return a one-line repr of at most `limit` characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001  the object of a user may raise anything, Python for a number of 5,000 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _corners(west: float, south: float, east: float, north: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]
