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


def goes_over_dateline(polygon: shapely.Polygon) -> bool:
    """Tell whether a ring jumps more than 180° between neighbours; one that touches ±180 is taken as written."""
    rings = [shapely.get_coordinates(ring) for ring in (polygon.exterior, *polygon.interiors)]
    if any(np.any(np.abs(ring[:, 0]) == 180.0) for ring in rings):
        return False
    return any(np.any(np.abs(np.diff(ring[:, 0])) > 180.0) for ring in rings)


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
    jump = np.diff(ring[:, 0], prepend=ring[0, 0])
    turn = np.cumsum(np.where(jump > 180.0, -1, np.where(jump < -180.0, 1, 0)))
    if turn[-1] != 0:  # not closed on the strip: it runs around a pole
        pole = 90.0 if np.mean(ring[:-1, 1]) >= 0 else -90.0
        ring = np.concatenate([ring, [[ring[-1, 0], pole], [ring[0, 0], pole], ring[0]]])
        turn = np.concatenate([turn, [turn[-1], 0, 0]])
    for window in range(turn.min(), turn.max() + 1):
        yield np.column_stack([ring[:, 0] + 360.0 * (turn - window), ring[:, 1]])


def invalid_polygon(geometry: Any) -> str:
    """Say in one line why GEOS calls a geometry invalid, and where."""
    reason = str(shapely.is_valid_reason(geometry))
    advice = "put every hole inside its ring" if "Hole" in reason else "draw its rings without crossings"
    return f"the polygon is not valid: {reason}; {advice}"
