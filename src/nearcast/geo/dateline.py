"""Polygons that go over the dateline or around a pole, as polygons between -180 and 180.

Rings are unrolled onto a strip that runs on past ±180 (a vertex gains 360 for each crossing) and the strip is cut
into windows of the earth. Edges stay straight in longitude and latitude, as everywhere in nearcast.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import shapely

from nearcast.errors import InvalidRegion

Coordinates = npt.NDArray[np.float64]
Turns = npt.NDArray[np.int64]


def goes_over_dateline(polygon: shapely.Polygon) -> bool:
    """Tell whether a ring of the polygon is read as one that goes over the dateline or around a pole."""
    return any(np.any(_turns(shapely.get_coordinates(ring))) for ring in (polygon.exterior, *polygon.interiors))


def cut_at_dateline(geometry: Any) -> Any:
    """Return the same area with no ring over the dateline; the very same object when nothing is to be cut.

    A ring around a pole holds the pole nearer to it, whichever way it winds.
    Raises `InvalidRegion` where a ring crosses itself or a hole leaves its polygon.
    """
    polygons = shapely.get_parts(geometry)
    crossing = [goes_over_dateline(polygon) for polygon in polygons]
    if not any(crossing):
        return geometry
    pieces = [_cut_polygon(polygon) if over else polygon for polygon, over in zip(polygons, crossing, strict=True)]
    return shapely.union_all(pieces)


def _cut_polygon(polygon: shapely.Polygon) -> Any:
    shell = _cut_ring(shapely.get_coordinates(polygon.exterior))
    holes = shapely.union_all([_cut_ring(shapely.get_coordinates(ring)) for ring in polygon.interiors])
    if shapely.area(shapely.difference(holes, shell)) > 1e-9:
        raise InvalidRegion("a hole of the polygon lies outside its outer ring; correct the ring", field="region")
    return shapely.difference(shell, holes)


def _cut_ring(ring: Coordinates) -> Any:
    """Return the area inside a ring, wherever on the strip it runs, as polygons between -180 and 180."""
    earth = shapely.box(-180.0, -90.0, 180.0, 90.0)
    pieces: list[Any] = []
    for window in _windows(ring):
        unrolled = shapely.Polygon(window)
        if not shapely.is_valid(unrolled):
            raise InvalidRegion(invalid_polygon(unrolled), field="region")
        inside = shapely.get_parts(shapely.intersection(unrolled, earth))
        pieces += [piece for piece in inside if piece.geom_type == "Polygon"]
    return shapely.union_all(pieces)


def _windows(ring: Coordinates) -> Iterator[Coordinates]:
    """Yield the unrolled ring once for each turn of the earth it reaches, shifted so that this turn is -180..180.

    Vertices of that turn keep their coordinates to the last bit, so points on the border stay on it.
    """
    ring, turn = _closed(ring, _turns(ring))
    for window in range(turn.min(), turn.max() + 1):
        yield np.column_stack([ring[:, 0] + 360.0 * (turn - window), ring[:, 1]])


def _turns(ring: Coordinates) -> Turns:
    """Return the turn of the earth each vertex of a ring lies in, counted from that of the first.

    An edge of more than 180° goes the short way, over the dateline. Between a corner on 180 and one on -180 the short
    way is none at all: both name one meridian. A ring with such an edge is taken as written where that reading
    leaves no area, as with the whole earth drawn as a rectangle, or a belt or polar cap cut at ±180.
    """
    jump = np.diff(ring[:, 0], prepend=ring[0, 0])
    turn = np.cumsum(np.where(jump > 180.0, -1, np.where(jump < -180.0, 1, 0)))
    if not np.any(np.abs(jump) == 360.0) or _has_area(ring, turn, np.abs(jump)):
        return turn
    return np.zeros_like(turn)


def _has_area(ring: Coordinates, turn: Turns, jump: Coordinates) -> bool:
    """Tell whether an unrolled ring encloses something; one that goes around a pole must have an edge over the line."""
    if turn[-1] != 0 and not np.any((jump > 180.0) & (jump < 360.0)):
        return False
    ring, turn = _closed(ring, turn)
    unrolled = shapely.Polygon(np.column_stack([ring[:, 0] + 360.0 * turn, ring[:, 1]]))
    return bool(shapely.is_valid(unrolled)) and shapely.area(unrolled) > 0.0


def _closed(ring: Coordinates, turn: Turns) -> tuple[Coordinates, Turns]:
    """Return the ring and its turns, by way of the nearer pole where it does not close on the strip."""
    if turn[-1] == 0:
        return ring, turn
    pole = 90.0 if np.mean(ring[:-1, 1]) >= 0 else -90.0
    ring = np.concatenate([ring, [[ring[-1, 0], pole], [ring[0, 0], pole], ring[0]]])
    return ring, np.concatenate([turn, [turn[-1], 0, 0]])


def invalid_polygon(geometry: Any) -> str:
    """Say in one line why GEOS calls a geometry invalid, and where."""
    reason = str(shapely.is_valid_reason(geometry))
    advice = "put every hole inside its ring" if "Hole" in reason else "draw its rings without crossings"
    return f"the polygon is not valid: {reason}; {advice}"
