"""From columns of numbers and GeoJSON to checked regions and the boxes that cover them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.errors import InvalidRegion
from nearcast.geo.shapes import Area, Box, Circle, Shape, shape_from
from nearcast.geo.space import EARTH_RADIUS_M, Floats, Space
from nearcast.nesting import is_deep_json

ANYWHERE, BOX, CIRCLE, POLYGON = 0, 1, 2, 3

Kinds = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

#: (row, field, reason) of a region that cannot be used.
Fault = tuple[int, str, str]

# Far above the rounding of haversine (1e-15) and far below anything a filter would notice: a part may be a little
# too large, never too small.
_RELATIVE_PAD, _ANGLE_PAD = 1e-9, 1e-12


def enter_shape(shape: Shape | None, row: int, values: Floats, geometries: dict[int, Any]) -> int:
    """Write a shape into the columns at `row` and return its kind."""
    if isinstance(shape, Box):
        values[row] = shape.x_min, shape.y_min, shape.x_max, shape.y_max
        return BOX
    if isinstance(shape, Circle):
        values[row, :3] = shape.x, shape.y, shape.radius
        return CIRCLE
    if isinstance(shape, Area):
        geometries[row] = shape.geometry
        return POLYGON
    if shape is None:
        return ANYWHERE
    raise InvalidRegion(f"{shape!r} is no shape; make one with shape_from", field="region")


# --- checks -----------------------------------------------------------------------------------------------------


def number_faults(space: Space, kinds: Kinds, values: Floats) -> list[Fault]:
    """Return the first thing wrong with each box and circle."""
    faults = _FirstFaults()
    boxes = np.flatnonzero((kinds == BOX) & ~_is_good_box(space, values))
    if boxes.size:
        _check_boxes(space, boxes, values[boxes], faults)
    circles = np.flatnonzero(kinds == CIRCLE)
    if circles.size:
        _check_circles(space, circles, values[circles], faults)
    return faults.found


def _is_good_box(space: Space, values: Floats) -> Mask:
    """Tell which rows are good boxes by one comparison; all others, NaN included, are checked one fault at a time."""
    x_min, y_min, x_max, y_max = values.T
    good: Mask = y_min <= y_max
    if space.is_earth:
        good &= (y_min >= -90.0) & (y_max <= 90.0) & (np.abs(x_min) <= 180.0) & (np.abs(x_max) <= 180.0)
    else:
        good &= (x_min > -np.inf) & (y_min > -np.inf) & (x_max < np.inf) & (y_max < np.inf) & (x_min <= x_max)
    return good


class _FirstFaults:
    """Collect the first fault of each row, from one vectorised check after the other."""

    def __init__(self) -> None:
        self.found: list[Fault] = []
        self._seen: set[int] = set()

    def add(self, rows: npt.NDArray[np.intp], bad: Mask, field: str, reason: str, *columns: Floats) -> None:
        for at in np.flatnonzero(bad).tolist():
            row = int(rows[at])
            if row not in self._seen:
                self._seen.add(row)
                self.found.append((row, field, reason.format(*(float(column[at]) for column in columns))))


def _check_boxes(space: Space, rows: npt.NDArray[np.intp], values: Floats, faults: _FirstFaults) -> None:
    names = ("west", "south", "east", "north") if space.is_earth else ("x_min", "y_min", "x_max", "y_max")
    x_min, y_min, x_max, y_max = values.T
    for name, column in zip(names, (x_min, y_min, x_max, y_max), strict=True):
        _check_coordinate(space, name, column, rows, faults, is_latitude=name in ("south", "north"))
    faults.add(rows, y_min > y_max, names[1], f"{names[1]} {{}} is above {names[3]} {{}}; swap them", y_min, y_max)
    if not space.is_earth:
        faults.add(rows, x_min > x_max, "x_min", "x_min {} is above x_max {}; swap them", x_min, x_max)


def _check_circles(space: Space, rows: npt.NDArray[np.intp], values: Floats, faults: _FirstFaults) -> None:
    names = ("lon", "lat", "radius_m") if space.is_earth else ("x", "y", "radius")
    x, y, radius = values[:, 0], values[:, 1], values[:, 2]
    _check_coordinate(space, names[0], x, rows, faults, is_latitude=False)
    _check_coordinate(space, names[1], y, rows, faults, is_latitude=True)
    bad = ~np.isfinite(radius) | (radius < 0)
    faults.add(rows, bad, names[2], f"{names[2]} is {{}}; expected a finite number, 0 or more", radius)


def _check_coordinate(
    space: Space, name: str, column: Floats, rows: npt.NDArray[np.intp], faults: _FirstFaults, *, is_latitude: bool
) -> None:
    faults.add(rows, ~np.isfinite(column), name, f"{name} is {{}}; expected a finite number", column)
    if space.is_earth:
        limit, word = (90, "latitude") if is_latitude else (180, "longitude")
        reason = f"{word} {{}} is beyond {limit}; expected -{limit} to {limit}"
        faults.add(rows, np.abs(column) > limit, name, reason, column)


# --- polygons ---------------------------------------------------------------------------------------------------


def read_polygons(
    space: Space, kinds: Kinds, values: Floats, geometries: Mapping[int, Any]
) -> tuple[dict[int, Any], list[Fault]]:
    """Return checked shapely geometries by row, cut at the dateline, and the rows that have none.

    A circle or a bbox given as a geometry moves to `kinds` and `values`, which are changed in place.
    """
    wanted = np.flatnonzero(kinds == POLYGON).tolist()
    faults: list[Fault] = [
        (row, "region", "the region is missing; expected GeoJSON") for row in wanted if geometries.get(row) is None
    ]
    rows = [row for row in wanted if geometries.get(row) is not None]
    ready = _read_plain(space, [geometries[row] for row in rows])
    polygons: dict[int, Any] = {}
    for row, geometry in zip(rows, ready, strict=True):
        if geometry is not None:
            polygons[row] = geometry
            continue
        try:
            shape = shape_from(geometries[row], space)
            found: dict[int, Any] = {}
            kinds[row] = enter_shape(shape, row, values, found)
            if isinstance(shape, Area):
                polygons[row] = shape.cut() if space.is_earth else shape.geometry
        except InvalidRegion as error:
            faults.append((row, "region", str(error)))
    return polygons, faults


def _read_plain(space: Space, given: list[Any]) -> npt.NDArray[np.object_]:
    """Return the geometries that are fine as they are, all at once; None where `shape_from` has to look closer."""
    import shapely

    ready = np.full(len(given), None, object)
    texts = [at for at, value in enumerate(given) if isinstance(value, str) and not is_deep_json(value.encode())]
    if texts:
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that are not finite are refused below
            ready[texts] = shapely.from_geojson([given[at] for at in texts], on_invalid="ignore")
    for at, value in enumerate(given):
        if isinstance(value, shapely.Geometry):
            ready[at] = value
    here = np.flatnonzero([geometry is not None for geometry in ready])
    good = _is_plain(space, ready[here]) if here.size else np.zeros(0, bool)
    ready[here[~good]] = None
    ready[here[good]] = shapely.force_2d(ready[here[good]])
    return ready


def _is_plain(space: Space, geometries: npt.NDArray[np.object_]) -> Mask:
    """Tell which geometries are valid polygons within the space that cannot go over the dateline."""
    import shapely

    good: Mask = np.isin(shapely.get_type_id(geometries), (3, 6)) & ~shapely.is_empty(geometries)
    good &= shapely.is_valid(geometries)
    bounds = shapely.bounds(geometries)
    good &= np.isfinite(bounds).all(axis=1)
    if space.is_earth:
        west, south, east, north = bounds.T
        good &= (west >= -180) & (east <= 180) & (south >= -90) & (north <= 90) & (east - west <= 180)
    return good


def polygon_parts(geometry: Any) -> list[tuple[float, float, float, float]]:
    """Return the bounding box, or two where the pieces of a polygon lie on both sides of the dateline."""
    import shapely

    whole = shapely.bounds(geometry)
    pieces = shapely.get_parts(geometry)
    if pieces.size == 1 or whole[0] > -180.0 or whole[2] < 180.0:
        return [tuple(whole.tolist())]
    bounds = shapely.bounds(pieces)
    is_west = bounds[:, 0] + bounds[:, 2] < 0
    sides = [bounds[side] for side in (~is_west, is_west) if side.any()]
    return [(*side[:, :2].min(axis=0).tolist(), *side[:, 2:].max(axis=0).tolist()) for side in sides]


# --- covering boxes ---------------------------------------------------------------------------------------------


def covering_parts(
    space: Space, kinds: Kinds, values: Floats, polygons: Mapping[int, Any]
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return `part_start` and `part` of rows that passed the checks."""
    first = np.where((kinds == BOX)[:, None], values, (-np.inf, -np.inf, np.inf, np.inf))
    more: list[tuple[npt.NDArray[np.intp], Floats]] = []
    if space.is_earth:
        over = np.flatnonzero((kinds == BOX) & (values[:, 0] > values[:, 2]))
        more.append((over, _cut_boxes(first, over)))
    circles = np.flatnonzero(kinds == CIRCLE)
    if circles.size:
        parts, over, second = _circle_parts(space, *np.ascontiguousarray(values[circles, :3].T))
        first[circles] = parts
        more.append((circles[over], second))
    for row, geometry in polygons.items():
        first[row], *second_side = polygon_parts(geometry)
        more += [(np.array([row]), np.array([side])) for side in second_side]
    return _interleaved(first, more)


def only_part(shape: Shape | None, space: Space) -> Floats | None:
    """Return the one box that covers a single box or circle, as `covering_parts` would.

    None where there is more to it: a fault, a dateline, another kind of shape. A column of one row took twenty times
    as long, a fifth of a whole `subscribe`.
    """
    if isinstance(shape, Box):
        x_min, y_min, x_max, y_max = shape.x_min, shape.y_min, shape.x_max, shape.y_max
        fits = not space.is_earth or (x_min >= -180.0 and x_max <= 180.0 and y_min >= -90.0 and y_max <= 90.0)
        return np.array([[x_min, y_min, x_max, y_max]]) if fits and x_min <= x_max and y_min <= y_max else None
    if not isinstance(shape, Circle):
        return None
    x, y, radius = shape.x, shape.y, shape.radius
    if not space.is_earth:
        reach = radius * (1 + _RELATIVE_PAD)
        low = math.nextafter(x - reach, -math.inf), math.nextafter(y - reach, -math.inf)
        return np.array([[*low, math.nextafter(x + reach, math.inf), math.nextafter(y + reach, math.inf)]])
    if abs(x) > 180.0 or abs(y) > 90.0:
        return None
    box = _cap_boxes(np.array([x]), np.array([y]), np.array([radius]))
    return box if box[0, 0] <= box[0, 2] else None


def _cut_boxes(boxes: Floats, over: npt.NDArray[np.intp]) -> Floats:
    """End the boxes `over` at 180, in place, and return what remains of them from -180 on."""
    rest = boxes[over]
    rest[:, 0], boxes[over, 2] = -180.0, 180.0
    return rest


def _circle_parts(space: Space, x: Floats, y: Floats, radius: Floats) -> tuple[Floats, npt.NDArray[np.intp], Floats]:
    """Return a box for each circle, and for the rows that need two: which they are, and the second box."""
    if space.is_earth:
        boxes = _cap_boxes(x, y, radius)
        over = np.flatnonzero(boxes[:, 0] > boxes[:, 2])
        return boxes, over, _cut_boxes(boxes, over)
    reach = radius * (1 + _RELATIVE_PAD)
    low = np.nextafter(np.column_stack([x - reach, y - reach]), -np.inf)
    high = np.nextafter(np.column_stack([x + reach, y + reach]), np.inf)
    return np.hstack([low, high]), np.empty(0, np.intp), np.empty((0, 4))


def _cap_boxes(lon: Floats, lat: Floats, radius_m: Floats) -> Floats:
    """Return boxes around caps of the sphere, all longitudes where one holds a pole, west > east over the dateline."""
    angle = np.minimum(radius_m / EARTH_RADIUS_M * (1 + _RELATIVE_PAD) + _ANGLE_PAD, np.pi)
    phi = np.radians(lat)
    holds_pole = np.abs(phi) + angle >= np.pi / 2
    # The widest point of a cap is where a meridian is tangent to it: tan Δλ = sin r / √(cos(φ+r)·cos(φ-r)).
    # The arcsine form of this loses half its digits for caps that nearly reach a pole.
    tangent = np.sqrt(np.maximum(np.cos(phi + angle) * np.cos(phi - angle), 0.0))
    half_width = np.degrees(np.arctan2(np.sin(angle), tangent))
    west, east, reach = lon - half_width, lon + half_width, np.degrees(angle)
    west += 360.0 * (west <= -180.0)
    east -= 360.0 * (east >= 180.0)
    west[holds_pole], east[holds_pole] = -180.0, 180.0
    return np.column_stack([west, np.maximum(lat - reach, -90.0), east, np.minimum(lat + reach, 90.0)])


def _interleaved(
    first: Floats, more: list[tuple[npt.NDArray[np.intp], Floats]]
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Put the second parts (rows, boxes) behind the first ones of their rows."""
    count = np.ones(len(first), np.int64)
    for rows, _ in more:
        count[rows] = 2
    part_start = np.zeros(len(first) + 1, np.int64)
    np.cumsum(count, out=part_start[1:])
    if part_start[-1] == len(first):
        return part_start, first
    part = np.empty((int(part_start[-1]), 4))
    part[part_start[:-1]] = first
    for rows, boxes in more:
        part[part_start[rows] + 1] = boxes
    return part_start, part
