"""The space a hub lives in, earth or plane, and the distances in it.

The kernels here are the definition of distance: every index, `scan` and `explain` call them, so no two parts of
nearcast disagree in the last bit about which side of a border a message lies on.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.errors import InvalidInput

EARTH_RADIUS_M = 6_371_008.8

Floats = npt.NDArray[np.float64]
Bounds = tuple[float, float, float, float]


@kernel
def cos_latitude(lat):
    """Return the cosine of a latitude in degrees, exactly 0 at the poles."""
    # cos(π/2) is 6e-17 in floating point, which would put the "same" pole at two longitudes a nanometre apart.
    return math.cos(math.radians(lat)) if abs(lat) < 90.0 else 0.0


@kernel
def _longitude_gap(lon1, lon2):
    # Folding in degrees makes 180 and -180 exactly the same meridian.
    gap = abs(lon2 - lon1)
    return 360.0 - gap if gap > 180.0 else gap


@kernel
def haversine(lon1, lat1, lon2, lat2):
    """Return the metres between two points on the sphere of radius `EARTH_RADIUS_M`, given in degrees."""
    return haversine_by_cosines(lon1, lat1, cos_latitude(lat1), lon2, lat2, cos_latitude(lat2))


@kernel
def haversine_by_cosines(lon1, lat1, cosine1, lon2, lat2, cosine2):
    """Return `haversine`, to the last bit, of points whose `cos_latitude` is known: that is half of its work."""
    gap = math.radians(_longitude_gap(lon1, lon2))
    cosines = cosine1 * cosine2
    h = math.sin(math.radians(lat2 - lat1) / 2.0) ** 2 + cosines * math.sin(gap / 2.0) ** 2
    if h <= 0.75:
        return 2.0 * EARTH_RADIUS_M * math.asin(math.sqrt(h))
    # asin is ill-conditioned near 1: measure to the antipode instead and take the rest of the half circle.
    rest = math.sin(math.radians(lat1 + lat2) / 2.0) ** 2 + cosines * math.cos(gap / 2.0) ** 2
    return 2.0 * EARTH_RADIUS_M * (math.pi / 2.0 - math.asin(math.sqrt(rest)))


@kernel
def _meridian_edge_distance(lon, lat, edge, south, north):
    """Return the metres to the stretch of the meridian `edge` from `south` to `north`."""
    nearest = min(haversine(lon, lat, edge, south), haversine(lon, lat, edge, north))
    gap = math.radians(_longitude_gap(lon, edge))
    foot = math.degrees(math.atan2(math.sin(math.radians(lat)), cos_latitude(lat) * math.cos(gap)))
    if south < foot and foot < north:
        return min(nearest, haversine(lon, lat, edge, foot))
    return nearest


@kernel
def _earth_box_distance(lon, lat, west, south, east, north):
    if west == east and south == north:
        return haversine(lon, lat, west, south)
    to_west = _longitude_gap(lon, west)
    to_east = _longitude_gap(lon, east)
    if (west <= lon and lon <= east) or to_west == 0.0 or to_east == 0.0:
        if south <= lat and lat <= north:
            return 0.0
        return haversine(lon, lat, lon, min(max(lat, south), north))
    # At every latitude the distance grows with the difference in longitude, so the farther edge cannot win.
    return _meridian_edge_distance(lon, lat, west if to_west <= to_east else east, south, north)


@kernel
def box_distance(is_earth, x, y, x_min, y_min, x_max, y_max):
    """Return the distance from a point to the nearest point of a box, 0 inside and on the border.

    The box must not cross the dateline: see `place_distance` for those.
    """
    if is_earth:
        return _earth_box_distance(x, y, x_min, y_min, x_max, y_max)
    return math.hypot(max(x_min - x, 0.0, x - x_max), max(y_min - y, 0.0, y - y_max))


@kernel
def place_distance(is_earth, x, y, x_min, y_min, x_max, y_max):
    """Return `box_distance` for a message's place as given: on the earth `x_max` < `x_min` crosses the dateline."""
    if is_earth and x_max < x_min:
        return min(
            box_distance(is_earth, x, y, x_min, y_min, 180.0, y_max),
            box_distance(is_earth, x, y, -180.0, y_min, x_max, y_max),
        )
    return box_distance(is_earth, x, y, x_min, y_min, x_max, y_max)


@kernel
def circle_holds(is_earth, cx, cy, radius, x_min, y_min, x_max, y_max):
    """Return whether a circle touches a message's place, border included; a crossing place is taken as given."""
    return place_distance(is_earth, cx, cy, x_min, y_min, x_max, y_max) <= radius


@kernel
def _fill_distances(is_earth, x1, y1, x2, y2, out):
    for i in range(out.size):
        out[i] = box_distance(is_earth, x1[i], y1[i], x2[i], y2[i], x2[i], y2[i])


@kernel
def _fill_box_distances(is_earth, x, y, box, out):
    for i in range(out.size):
        out[i] = place_distance(is_earth, x[i], y[i], box[i, 0], box[i, 1], box[i, 2], box[i, 3])


def _flat(value: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    # A copy, since broadcast views are read-only, and a kernel is compiled anew for read-only arrays.
    return np.array(np.broadcast_to(np.asarray(value, np.float64), shape), order="C").reshape(-1)


@dataclass(frozen=True)
class Space:
    """Where messages and subscriptions live: the earth in degrees and metres, or a plane in any unit.

    Make one with `Space.earth()` or `Space.plane()`. On the earth x is the longitude and y the latitude.

    >>> Space.earth().distance(13.4, 52.5, 2.35, 48.86)  # Berlin to Paris, in metres
    876215.9...
    >>> Space.plane().distance(0, 0, 3, 4)
    5.0
    """

    kind: Literal["earth", "plane"]
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("earth", "plane"):
            raise InvalidInput(f"space is {self.kind!r}; expected 'earth' or 'plane'", field="space")
        if self.bounds is None:
            return
        if self.kind == "earth":
            raise InvalidInput("the earth takes no bounds; leave them out or use a plane", field="bounds")
        object.__setattr__(self, "bounds", _checked_bounds(self.bounds))

    @classmethod
    def earth(cls) -> "Space":
        """Return the sphere: longitudes and latitudes in degrees, distances in metres."""
        return cls("earth")

    @classmethod
    def plane(cls, bounds: Bounds | None = None) -> "Space":
        """Return a Euclidean plane; `bounds` (x_min, y_min, x_max, y_max) help an index choose its cells."""
        return cls("plane", bounds)

    @property
    def is_earth(self) -> bool:
        """Tell whether coordinates are degrees on the sphere."""
        return self.kind == "earth"

    @property
    def unit(self) -> str:
        """Name the unit of distances: "m" on the earth, nothing on a plane."""
        return "m" if self.is_earth else ""

    def distance(self, x1: npt.ArrayLike, y1: npt.ArrayLike, x2: npt.ArrayLike, y2: npt.ArrayLike) -> float | Floats:
        """Return the distance between points; arrays are broadcast, plain numbers give a plain number."""
        shape = np.broadcast_shapes(np.shape(x1), np.shape(y1), np.shape(x2), np.shape(y2))
        from_x, from_y, to_x, to_y = (_flat(value, shape) for value in (x1, y1, x2, y2))
        out = np.empty(from_x.size)
        _fill_distances(self.is_earth, from_x, from_y, to_x, to_y, out)
        return out.reshape(shape) if shape else float(out[0])

    def distance_to_box(self, x: npt.ArrayLike, y: npt.ArrayLike, box: npt.ArrayLike) -> float | Floats:
        """Return the distance from points to the nearest point of boxes (…, 4), 0 inside; arrays are broadcast.

        On the earth it is exact for longitude-latitude rectangles, also for those over the dateline (west > east).
        """
        boxes = np.asarray(box, np.float64)
        shape = np.broadcast_shapes(np.shape(x), np.shape(y), boxes.shape[:-1])
        xs, ys = _flat(x, shape), _flat(y, shape)
        rows = _flat(boxes, (*shape, 4)).reshape(-1, 4)
        out = np.empty(xs.size)
        _fill_box_distances(self.is_earth, xs, ys, rows, out)
        return out.reshape(shape) if shape else float(out[0])


def _checked_bounds(bounds: Bounds) -> Bounds:
    values = tuple(float(value) for value in bounds)
    if len(values) != 4 or not all(map(math.isfinite, values)) or values[0] >= values[2] or values[1] >= values[3]:
        raise InvalidInput(f"bounds are {bounds}; expected finite x_min < x_max and y_min < y_max", field="bounds")
    return values
